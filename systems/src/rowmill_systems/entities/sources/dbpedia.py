"""DBpedia: Lookup by name, Spotlight by the words around it, and resources as RDF in JSON."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote

from rowmill_systems.entities.linking.types import types_of_dbpedia
from rowmill_systems.entities.properties.catalogue import properties_of
from rowmill_systems.entities.sources.rdf import Resource
from rowmill_systems.entities.things import Candidate, Fact, Mention
from rowmill_systems.parts.names.folding import folded
from rowmill_systems.parts.names.types import EntityType
from rowmill_systems.parts.services.errors import RequestRejected
from rowmill_systems.parts.services.service import ServiceClient

MOST = 10
LONGEST_NAME, LONGEST_TEXT = 200, 1500
CONFIDENCE = "0.1"
"""Spotlight's own threshold, kept low: we choose later."""
WELL_KNOWN = 20_000
"""A thing with so many incoming links has prominence 1."""
RESOURCE = "http://dbpedia.org/resource/"
NO_THING = re.compile(r"(Category|Template|Portal|File|Help|Wikipedia):|Lists?_of_|.*_\(disambiguation\)$")
MARK = re.compile(r"</?[a-zA-Z]{1,8}>")
"""Tags that Lookup puts around the words that it found."""


class DbpediaSource:
    """Asks DBpedia.

    Its candidates have no Wikidata id, since neither Lookup nor Spotlight has it: see `wikidata_id`.
    """

    name = "dbpedia"

    def __init__(self, lookup: ServiceClient, spotlight: ServiceClient | None, data: ServiceClient) -> None:
        self._lookup, self._spotlight, self._data = lookup, spotlight, data

    async def candidates(self, mention: Mention) -> Sequence[Candidate]:
        name = " ".join(mention.name.split())[:LONGEST_NAME]
        if not name:
            return []
        asked = {"query": name, "format": "JSON", "maxResults": str(MOST)}
        answer = await self._lookup.get("", asked, nothing=lambda answer: not answer["docs"])
        found = {each.id: each for doc in _objects(answer["docs"]) if (each := self._of_doc(doc))}
        for each in await self._by_context(name, mention.context):
            found.setdefault(each.id, each)
        return list(found.values())[: MOST + MOST // 2]

    async def facts(self, id: str, type: EntityType | None) -> Sequence[Fact]:
        resource = await self._resource(id)
        if resource is None:
            return []
        said = ((each.key, resource.values(each)) for each in properties_of(type))
        return [Fact(key, values, self.name, resource.uri) for key, values in said if values]

    async def wikidata_id(self, id: str) -> str | None:
        resource = await self._resource(id)
        return resource.wikidata_id if resource else None

    async def close(self) -> None:
        """Does nothing: the caller closes the services that it opened."""

    async def _resource(self, uri: str, *, moved: bool = False) -> Resource | None:
        """Return a resource; None if there is none. Follows one redirect."""
        page = _page(uri)
        if not page:
            return None
        try:
            answer = await self._data.get(f"/{quote(page)}.json", {}, nothing=lambda answer: not answer)
        except RequestRejected as error:
            if error.gone:
                return None
            raise
        found = Resource.of(answer, RESOURCE + page)
        if found is not None and found.moved_to and not moved:
            return await self._resource(found.moved_to, moved=True)
        return found

    async def _by_context(self, name: str, context: str) -> list[Candidate]:
        """Return what Spotlight links the name to within these words."""
        if self._spotlight is None or not context.strip():
            return []
        asked = {"text": _around(name, context), "confidence": CONFIDENCE}
        answer = await self._spotlight.post("", asked, nothing=lambda answer: not list(_spotted(answer)))
        meant = (resource for form, resource in _spotted(answer) if folded(form) == folded(name))
        return [each for resource in meant if (each := self._of_spot(resource))]

    def _of_doc(self, doc: Mapping[str, Any]) -> Candidate | None:
        uri, label = _first(doc.get("resource")), _plain(_first(doc.get("label")))
        if not is_thing(uri) or not label:
            return None
        return Candidate(
            self.name,
            uri,
            label,
            aliases=tuple(dict.fromkeys(_plain(each) for each in _texts(doc.get("redirectlabel")))),
            types=types_of_dbpedia([*_texts(doc.get("type")), *_texts(doc.get("typeName"))]),
            description=_plain(_first(doc.get("comment"))),
            prominence=_prominence(_first(doc.get("refCount"))),
            dbpedia_uri=uri,
        )

    def _of_spot(self, given: Mapping[str, Any]) -> Candidate | None:
        uri = str(given.get("@URI") or given.get("@uri") or "")
        uri = uri if uri.startswith("http") else RESOURCE + uri
        if not is_thing(uri):
            return None
        return Candidate(
            self.name,
            uri,
            str(given.get("@label") or unquote(_page(uri)).replace("_", " ")),
            types=types_of_dbpedia(each.strip() for each in str(given.get("@types", "")).split(",")),
            prominence=_prominence(str(given.get("@support", ""))),
            dbpedia_uri=uri,
        )


def is_thing(uri: str) -> bool:
    return bool(_page(uri)) and not NO_THING.match(_page(uri))


def _page(uri: str) -> str:
    """Its name in DBpedia, as it is; empty for what is not there."""
    found = re.fullmatch(r"https?://dbpedia\.org/(?:resource|page)/(.+)", uri)
    return unquote(found[1]) if found else ""


def _around(name: str, context: str) -> str:
    """Cut the context to the longest text that the service takes, around the name and including it."""
    place = context.find(name)
    if place < 0:
        return f"{name}. {context}"[:LONGEST_TEXT]
    start = max(0, min(place - LONGEST_TEXT // 2, len(context) - LONGEST_TEXT))
    return context[start : start + LONGEST_TEXT]


def _spotted(answer: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield names and what they may mean, from an answer of `candidates` or `annotate`. A single value is not in a list
    there."""
    annotation = answer.get("annotation")
    for form in _objects(annotation.get("surfaceForm") if isinstance(annotation, dict) else None):
        for resource in _objects(form.get("resource")):
            yield str(form.get("@name", "")), resource
    for resource in _objects(answer.get("Resources")):
        yield str(resource.get("@surfaceForm", "")), resource


def _objects(given: Any) -> Iterable[Mapping[str, Any]]:
    return [each for each in (given if isinstance(given, list) else [given]) if isinstance(each, dict)]


def _texts(given: Any) -> list[str]:
    return [each for each in (given if isinstance(given, list) else [given]) if isinstance(each, str) and each]


def _first(given: Any) -> str:
    return next(iter(_texts(given)), "")


def _plain(text: str) -> str:
    return MARK.sub("", text).strip()


def _prominence(links: str) -> float:
    count = int(links[:12]) if links.isdecimal() else 0  # nobody has more digits, and a service may answer anything
    return min(1.0, math.log1p(count) / math.log1p(WELL_KNOWN))
