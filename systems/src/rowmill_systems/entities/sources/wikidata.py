"""Wikidata, or another Wikibase with its properties, by its Action API."""

import asyncio
import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from itertools import chain, zip_longest
from typing import Any

from rowmill_systems.entities.linking.types import types_of_wikidata
from rowmill_systems.entities.properties.catalogue import Property, catalogue, properties_of
from rowmill_systems.entities.sources.wikidata_items import MISSING, Item, item_of, label_of
from rowmill_systems.entities.sources.wikidata_values import StatementReader, things_in
from rowmill_systems.entities.things import Candidate, Fact, Mention
from rowmill_systems.parts.names.types import EntityType
from rowmill_systems.parts.services.service import BatchQuery, ServiceClient

MOST_FOUND, MOST_CANDIDATES = 10, 15
LONGEST_SEARCH = 200
LAG = "5"
"""The replication lag in seconds at which we wait, as Wikimedia asks of programs."""
ID = re.compile(r"Q[1-9]\d{0,9}")
GREATEST = 2**31 - 1
"""A greater id is an error for the whole call."""
OPERATORS = re.compile(r"[\W_]+")
"""Characters that a search may take for an operator: a name with a colon must not become an expensive query."""
NO_THINGS = frozenset(
    # Pages of Wikimedia's own: disambiguations, categories, templates, lists, duplicates, modules, project pages.
    ["Q4167410", "Q22808320", "Q4167836", "Q11266439", "Q13406463", "Q17362920", "Q15184295", "Q14204246"]
)
WELL_KNOWN = 200
"""A thing with pages on so many sites has prominence 1."""
RESOURCE = "http://dbpedia.org/resource/"


class WikidataSource:
    """Asks Wikidata in English, and for names that are the same in all languages (`mul`)."""

    name = "wikidata"

    def __init__(self, service: ServiceClient, language: str = "en") -> None:
        self._service = service
        self.languages = tuple(dict.fromkeys((language, "en", "mul")))
        read = sorted(each.wikidata for each in catalogue().values() if each.wikidata)
        told = hashlib.sha256("|".join((*self.languages, *read)).encode()).hexdigest()[:16]
        self._items = self._batch(f"items {told}", "labels|aliases|descriptions|claims|sitelinks", self._item)
        self._labels = self._batch(f"labels {told}", "labels", self._label)

    async def candidates(self, mention: Mention) -> Sequence[Candidate]:
        """Search by prefix and by words, and combine both: each alone ranks badly and misses some."""
        words = " ".join(OPERATORS.sub(" ", mention.name).split())[:LONGEST_SEARCH]
        if not words:
            return []
        begins = await self._asked(
            {
                "action": "wbsearchentities", "search": mention.name.strip()[:LONGEST_SEARCH], "type": "item",
                "language": self.languages[0], "uselang": self.languages[0], "limit": str(MOST_FOUND),
            },
            lambda answer: not _hits(answer),
        )  # fmt: skip
        worded = await self._asked(
            {"action": "query", "list": "search", "srsearch": words, "srnamespace": "0", "srlimit": str(MOST_FOUND)},
            lambda answer: not _hits(answer["query"]),
        )
        found = [[hit.get("id") for hit in _hits(begins)], [hit.get("title") for hit in _hits(worded["query"])]]
        ids = [id for id in chain(*zip_longest(*found)) if isinstance(id, str) and is_item(id)]
        items = await self._service.each(self._items, list(dict.fromkeys(ids))[:MOST_CANDIDATES])
        there = {item["id"]: item for item in items.values() if item.get("id") and not is_page(item)}
        return await asyncio.gather(*(self._candidate(item, mention) for item in there.values()))

    async def facts(self, id: str, type: EntityType | None) -> Sequence[Fact]:
        if not is_item(id):
            return []
        item = (await self._service.each(self._items, [id]))[id]
        if item == MISSING:
            return []
        said = await self._read(item, properties_of(type))
        return [Fact(key, values, self.name, item["id"]) for key, values in said.items()]

    async def close(self) -> None:
        """Does nothing: the caller closes the service that it opened."""

    async def _asked(self, parameters: Mapping[str, str], nothing: Any) -> Any:
        return await self._service.get("", {**parameters, **USUAL}, nothing=nothing)

    async def _candidate(self, item: Item, mention: Mention) -> Candidate:
        """Return a candidate with the facts that tell namesakes apart. Names of other things cost a call, so they are
        fetched only where the mention has something to compare them with."""
        compared = [each for each in catalogue().values() if each.kind != "thing" or each.key in mention.known]
        names = [item["labels"].get(language) for language in self.languages]
        names += [name for language in self.languages for name in item["aliases"].get(language, ())]
        names = list(dict.fromkeys(name for name in names if name)) or [item["id"]]
        return Candidate(
            self.name,
            item["id"],
            names[0],
            aliases=tuple(names[1:]),
            types=types_of_wikidata(classes_of(item)),
            description=label_of(item["descriptions"], self.languages),
            prominence=min(1.0, math.log1p(item["sites"]) / math.log1p(WELL_KNOWN)),
            facts=await self._read(item, compared),
            wikidata_id=item["id"],
            dbpedia_uri=resource_of(item["page"]) if item["page"] else None,
        )

    async def _read(self, item: Item, properties: Sequence[Property]) -> dict[str, tuple[Any, ...]]:
        claims = {each: item["claims"].get(each.wikidata or "", ()) for each in properties}
        needed = [id for each, said in claims.items() for id in things_in(each, said) if is_item(id)]
        labels = await self._service.each(self._labels, list(dict.fromkeys(needed)))
        reader = StatementReader({id: label.get("label", "") for id, label in labels.items()})
        read = {each.key: reader.values(each, said) for each, said in claims.items() if said}
        return {key: values for key, values in read.items() if values}

    def _batch(self, name: str, props: str, part: Any) -> BatchQuery:
        asked = {"action": "wbgetentities", "props": props, "languages": "|".join(self.languages), **USUAL}

        def split(answer: Any, ids: Sequence[str]) -> dict[str, Any]:
            entities = answer.get("entities") or {}
            return {id: part(entities[id]) for id in ids if isinstance(entities.get(id), dict)}

        return BatchQuery(
            name, "GET", "", lambda ids: asked | {"ids": "|".join(ids)}, split, nothing=lambda part: part == MISSING
        )

    def _item(self, entity: Any) -> Item:
        return item_of(entity, self.languages)

    def _label(self, entity: Any) -> Any:
        labels = item_of(entity, self.languages).get("labels")
        return MISSING if labels is None else {"label": label_of(labels, self.languages)}


USUAL = {"format": "json", "formatversion": "2", "maxlag": LAG}


def _hits(answer: Any) -> list[Mapping[str, Any]]:
    """Raises TypeError if there is no list of them."""
    found = answer["search"]
    if not isinstance(found, list):
        raise TypeError("no list")
    return [hit for hit in found if isinstance(hit, dict)]


def is_item(id: str) -> bool:
    return ID.fullmatch(id) is not None and int(id[1:]) <= GREATEST


def classes_of(item: Item) -> list[str]:
    said = (claim["value"] for claim in item["claims"].get("P31", ()))
    return [value["id"] for value in said if isinstance(value, dict) and isinstance(value.get("id"), str)]


def is_page(item: Item) -> bool:
    """Return whether an item is a page of Wikimedia, such as a disambiguation, and not a thing."""
    return not NO_THINGS.isdisjoint(classes_of(item))


def resource_of(page: str) -> str:
    """Return the DBpedia URI for a page of the English Wikipedia: letters stay as they are, other characters are
    encoded."""
    return RESOURCE + re.sub(r'["#%<>?\[\\\]^`{|}]', lambda sign: f"%{ord(sign[0]):02X}", page.replace(" ", "_"))
