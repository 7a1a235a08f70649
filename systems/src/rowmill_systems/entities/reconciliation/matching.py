"""Answer a query with candidates of the knowledge base, found and scored by the linker."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rowmill_systems.entities.kb.thing import Thing, ThingIndex
from rowmill_systems.entities.linking.choose import Scored, decide, rank
from rowmill_systems.entities.linking.score import Parts
from rowmill_systems.entities.linking.types import type_of
from rowmill_systems.entities.properties.catalogue import Kind, catalogue
from rowmill_systems.entities.reconciliation import vocabulary
from rowmill_systems.entities.reconciliation.queries import (
    LONGEST_NAME,
    LONGEST_VALUE,
    MOST_CANDIDATES,
    PropertyValues,
    Query,
    Reference,
    Value,
)
from rowmill_systems.entities.sources.embedded import MOST, candidate_of, found
from rowmill_systems.entities.things import Mention
from rowmill_systems.parts.names.types import EntityType

PLACE = re.compile(r"\s*(-?\d{1,3}(?:\.\d+)?)\s*,\s*(-?\d{1,3}(?:\.\d+)?)\s*")
"""52.5,13.4, as this service writes places as well."""


@dataclass(frozen=True, slots=True)
class ReconciliationService:
    """Answers queries from a knowledge base. A candidate is a `match` if the linker would link to it with this
    knowledge base as its only source."""

    knowledge_base: ThingIndex
    threshold: float
    gap: float

    def answer(self, query: Query) -> list[dict[str, Any]]:
        """Return the candidates for a query, the best first."""
        most = min(int(query.limit), MOST_CANDIDATES) or MOST
        mentions = mentions_of(query)
        if not mentions:
            return []
        ranked = self._ranked(mentions, max(most, MOST), _restriction(query))
        match = decide(ranked, threshold=self.threshold, gap=self.gap)
        return [_shown(each, each is match) for each in ranked[:most]]

    def _ranked(self, mentions: Sequence[Mention], most: int, fits: Callable[[Thing], bool]) -> Sequence[Scored]:
        """Score the candidates. If the query has several types, each thing gets the score of the type that fits it
        best."""
        best: dict[str, Scored] = {}
        for mention in mentions:
            things = filter(fits, found(self.knowledge_base, mention, most))
            for scored in rank(mention, [candidate_of(thing) for thing in things]):
                known = best.get(scored.candidates[0].id)
                if known is None or scored.score > known.score:
                    best[scored.candidates[0].id] = scored
        called = self.knowledge_base.get(mentions[0].name)
        if called is not None and called.id not in best:  # an id, then, and no name that happens to be one
            best[called.id] = Scored((candidate_of(called),), Parts(name=1.0), 1.0)
        return sorted(best.values(), key=lambda each: (-each.score, each.candidates[0].id))


def mentions_of(query: Query) -> Sequence[Mention]:
    """Return a mention for each known type of the query; [] if it has no name, since things are found by name."""
    name = (query.query or "").strip()
    if not name or len(name) > LONGEST_NAME:
        return []
    known = _known(query.properties)
    types = sorted({type for type in map(type_of, query.types) if type is not None})
    return [Mention(name, type, known=known) for type in types] or [Mention(name, known=known)]


def _restriction(query: Query) -> Callable[[Thing], bool]:
    """Return the test that a thing must pass: none, unless `type_strict` is any or all. Unknown types fit nothing."""
    wanted: set[EntityType | None] = set(map(type_of, query.types))
    match query.type_strict:
        case "any" if wanted:
            return lambda thing: not wanted.isdisjoint(thing.types)
        case "all":
            return lambda thing: wanted <= thing.types
    return lambda thing: True


def _known(properties: Iterable[PropertyValues]) -> Mapping[str, Any]:
    """Return the properties of a query as the local facts of an entity. Properties that the catalogue lacks are left
    out."""
    known: dict[str, list[Any]] = {}
    for each in properties:
        if (property := catalogue().get(each.pid)) is not None:
            known.setdefault(each.pid, []).extend(_fact(value, property.kind) for value in each.values if value != "")
    return {key: values[0] if len(values) == 1 else values for key, values in known.items() if values}


def _fact(value: Value, kind: Kind) -> Any:
    """Return one value as a local fact. Cells of a table are text: only places are parsed here; the linker parses dates
    and numbers."""
    match value:
        case Reference():
            return {"id": value.id[:LONGEST_VALUE], "label": value.name[:LONGEST_VALUE]}
        case str() if kind == "place" and (place := PLACE.fullmatch(value[:LONGEST_VALUE])):
            return {"lat": float(place[1]), "lon": float(place[2])}
        case str():
            return value[:LONGEST_VALUE]
    return value


def _shown(scored: Scored, match: bool) -> dict[str, Any]:
    best, parts = scored.candidates[0], scored.parts
    features = {"name": parts.name, "type": parts.type, "facts": parts.facts, "prominence": parts.prominence}
    return {
        **vocabulary.Term(best.id, best.name, best.description).shown(),
        "type": vocabulary.types_of(best.types),
        "score": round(100 * min(max(scored.score, 0.0), 1.0), 2),
        "match": match,
        "features": [{"id": id, "value": round(value, 4)} for id, value in features.items()],
    }
