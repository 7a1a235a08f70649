"""Any service of the Reconciliation API 0.2, which OpenRefine uses."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from rowmill_systems.entities.linking.types import type_of, types_of_dbpedia, types_of_wikidata
from rowmill_systems.entities.properties.catalogue import Property, catalogue, properties_of
from rowmill_systems.entities.sources.cells import value_of
from rowmill_systems.entities.things import Candidate, Fact, Mention
from rowmill_systems.parts.names.folding import folded
from rowmill_systems.parts.names.types import EntityType
from rowmill_systems.parts.services.service import BatchQuery, ServiceClient

MOST = 10
LONGEST_NAME = 200
BATCH = 20
"""Queries in one call, if the service does not say how many it accepts."""
MOST_BATCH = 50
MOST_PROPERTIES = 30
WIKIDATA = re.compile(r"https?://(?:www\.)?wikidata\.org/entity/")
DBPEDIA = re.compile(r"https?://dbpedia\.org/resource/")


class ReconciliationSource:
    def __init__(self, name: str, service: ServiceClient) -> None:
        self.name = name
        self._service = service

    async def candidates(self, mention: Mention) -> Sequence[Candidate]:
        name = " ".join(mention.name.split())[:LONGEST_NAME]
        if not name:
            return []
        manifest = await self._manifest()
        query = json.dumps({"query": name, "limit": MOST}, sort_keys=True)
        result = (await self._service.each(queries(manifest), [query]))[query]
        space = str(manifest.get("identifierSpace", ""))
        found = [self._candidate(each, space) for each in result["result"] if isinstance(each, dict)]
        return [each for each in found if each.id and each.name][:MOST]

    async def facts(self, id: str, type: EntityType | None) -> Sequence[Fact]:
        """Return facts by the data extension of the service, if it has one: for properties that it names as we do, or
        as Wikidata does."""
        manifest = await self._manifest()
        if not isinstance(manifest.get("extend"), dict):
            return []
        known = await self._properties(manifest, type)
        if not known:
            return []
        row = (await self._service.each(extension([*known.values()][:MOST_PROPERTIES]), [id]))[id]
        facts = []
        for key, name in known.items():
            cells = row.get(name)
            values = [value_of(catalogue()[key].kind, cell) for cell in (cells if isinstance(cells, list) else [])]
            if values := [value for value in values if value is not None]:
                facts.append(Fact(key, tuple(values), self.name, id))
        return facts

    async def close(self) -> None:
        """Do nothing: the caller that opened the service closes it."""

    async def _manifest(self) -> Mapping[str, Any]:
        manifest: Mapping[str, Any] = await self._service.get("", {})
        return manifest

    def _candidate(self, given: Mapping[str, Any], space: str) -> Candidate:
        id = str(given.get("id", ""))
        in_wikidata = WIKIDATA.match(space) and re.fullmatch(r"Q\d+", id)
        in_dbpedia = DBPEDIA.match(id) or DBPEDIA.match(space)
        return Candidate(
            self.name,
            id,
            str(given.get("name", "")),
            types=types_in(given.get("type")),
            description=str(given.get("description") or ""),
            wikidata_id=id if in_wikidata else None,
            dbpedia_uri=(id if DBPEDIA.match(id) else space + id) if in_dbpedia else None,
        )

    async def _properties(self, manifest: Mapping[str, Any], type: EntityType | None) -> dict[str, str]:
        """Return the service's names of our properties, by our keys."""
        ours = properties_of(type)
        if WIKIDATA.match(str(manifest.get("identifierSpace", ""))):
            return {each.key: each.wikidata for each in ours if each.wikidata}
        proposals = manifest["extend"].get("propose_properties")
        if not isinstance(proposals, dict):
            return {}
        address = f"{proposals.get('service_url', '')}{proposals.get('service_path', '')}"
        answer = await self._service.get(address, {"type": type_in(manifest, type), "limit": "100"})
        given = _named(answer.get("properties"))
        return {each.key: name for each in ours if (name := called(each, given))}


def queries(manifest: Mapping[str, Any]) -> BatchQuery:
    """Return a batched query of as many items per call as the service takes."""
    said = manifest.get("batchSize")
    most = min(said, MOST_BATCH) if isinstance(said, int) and said > 0 else BATCH

    def join(items: Sequence[str]) -> dict[str, str]:
        return {"queries": json.dumps({f"q{place}": json.loads(item) for place, item in enumerate(items)})}

    def split(answer: Any, items: Sequence[str]) -> dict[str, Any]:
        results = {item: answer.get(f"q{place}") for place, item in enumerate(items)}
        return {
            item: {"result": one["result"]}
            for item, one in results.items()
            if isinstance(one, dict) and isinstance(one.get("result"), list)
        }

    return BatchQuery(f"queries {most}", "POST", "", join, split, nothing=lambda one: not one["result"], most=most)


def extension(properties: Sequence[str]) -> BatchQuery:
    """These properties, of several things in one call."""
    wanted = [{"id": each} for each in properties]

    def join(ids: Sequence[str]) -> dict[str, str]:
        return {"extend": json.dumps({"ids": list(ids), "properties": wanted})}

    def split(answer: Any, ids: Sequence[str]) -> dict[str, Any]:
        rows = answer.get("rows")
        if not isinstance(rows, dict):
            return {}
        # A thing without a row is one that the service does not know any more.
        return {id: row if isinstance(row := rows.get(id), dict) else {} for id in ids}

    name = hashlib.sha256("|".join(properties).encode()).hexdigest()[:16]
    return BatchQuery(f"extend {name}", "POST", "", join, split, nothing=lambda row: not any(row.values()), most=BATCH)


def types_in(given: Any) -> frozenset[EntityType]:
    """Types are objects, or their ids alone; and may say what they are kinds of."""
    found: set[EntityType] = set()
    for each in given if isinstance(given, list) else []:
        names = (
            [each] if isinstance(each, str) else [each.get("id"), each.get("name")] if isinstance(each, dict) else []
        )
        texts = [name for name in names if isinstance(name, str)]
        found |= (
            types_of_wikidata(texts) | types_of_dbpedia(texts) | {type for text in texts if (type := type_of(text))}
        )
        if isinstance(each, dict):
            found |= types_in(each.get("broader"))
    return frozenset(found)


def type_in(manifest: Mapping[str, Any], type: EntityType | None) -> str:
    """Return the id of the service's type for ours, or of its first type: proposals need one."""
    given = _named(manifest.get("defaultTypes"))
    fitting = [each for each in given if type and type in types_in([each])]
    return str((fitting or given or [{"id": ""}])[0]["id"])


def _named(given: Any) -> list[Mapping[str, Any]]:
    """Return the objects of a list that have an id."""
    return [
        each
        for each in (given if isinstance(given, list) else [])
        if isinstance(each, dict) and isinstance(each.get("id"), str) and each["id"]
    ]


def called(property: Property, given: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the id of a property among these: ours, Wikidata's or DBpedia's, or that of the same name; None if there
    is none."""
    ids = {property.key, property.wikidata, *property.dbpedia}
    names = {folded(property.label), folded(property.key.replace("_", " "))}
    for each in given:
        if each["id"] in ids or folded(str(each.get("name", ""))) in names:
            return str(each["id"])
    return None
