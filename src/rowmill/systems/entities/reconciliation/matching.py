"""Answers a query: candidates of the knowledge base, scored by the linker's own measure."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from rowmill.systems.entities.kb.thing import KnowledgeBase, Thing
from rowmill.systems.entities.linking.linker import Scored
from rowmill.systems.entities.properties.catalogue import catalogue
from rowmill.systems.entities.reconciliation import vocabulary
from rowmill.systems.entities.reconciliation.queries import (
    LONGEST_NAME,
    LONGEST_VALUE,
    MOST_CANDIDATES,
    Known,
    Query,
    Reference,
    Value,
)
from rowmill.systems.entities.things import Candidate, EntityType, Mention

SOURCE = "embedded"
USUAL_CANDIDATES = 10

Weighing = Callable[[Mention, Sequence[Candidate]], Sequence[Scored]]
"""How likely each candidate is meant, from 0 to 1."""
TypeOf = Callable[[str], EntityType | None]
"""Which of our types a word stands for: person, Q5, https://schema.org/Person."""


@dataclass(frozen=True, slots=True)
class Service:
    """A knowledge base, and how its candidates are judged. As the linker does it: what is a match here would be linked
    there, and nothing else."""

    knowledge_base: KnowledgeBase
    weigh: Weighing
    type_of: TypeOf
    threshold: float
    gap: float

    def answer(self, query: Query) -> list[dict[str, Any]]:
        """The best first."""
        name = (query.query or "").strip()
        most = min(int(query.limit), MOST_CANDIDATES) or USUAL_CANDIDATES
        if not name or len(name) > LONGEST_NAME:
            return []
        wanted = [self.type_of(word) for word in query.types]
        types = {each for each in wanted if each is not None}
        called = self.knowledge_base.get(name)
        things = {each.id: each for each in self._found(name, types, max(most, USUAL_CANDIDATES))}
        if wanted and query.type_strict == "any":
            things = {id: thing for id, thing in things.items() if types & thing.types}
        elif query.type_strict == "all":  # a type that we do not know is one that no thing has
            things = {id: thing for id, thing in things.items() if set(wanted) <= thing.types}
        scores = self._scores(Mention(name, known=_known(query.properties)), types, things.values())
        if called is not None and called.id not in things:  # an id, then, and no name that happens to be one
            things[called.id], scores[called.id] = called, 1.0
        ranked = sorted(scores, key=lambda id: (-scores[id], -things[id].prominence, id))
        linked = self._is_ahead([scores[id] for id in ranked])
        answers = [_candidate(things[id], scores[id], linked and rank == 0, types) for rank, id in enumerate(ranked)]
        return answers[:most]

    def _found(self, name: str, types: Iterable[EntityType], most: int) -> Iterable[Thing]:
        """Of the wanted types first, so that they are there however many others are called so; then of any: a type is
        a wish, unless it is said to be more."""
        for type in sorted(types):
            yield from self.knowledge_base.search(name, most=most, type=type)
        yield from self.knowledge_base.search(name, most=most)

    def _scores(self, mention: Mention, types: Iterable[EntityType], things: Iterable[Thing]) -> dict[str, float]:
        """By id. Of several types that would do, the one that suits a thing best is taken for meant."""
        candidates, scores = [candidate_of(thing) for thing in things], dict[str, float]()
        mentions = [replace(mention, type=type) for type in sorted(types)] or [mention]
        for each in mentions:
            for scored in self.weigh(each, candidates):
                id = scored.candidates[0].id
                scores[id] = max(scores.get(id, 0.0), scored.score)
        return scores

    def _is_ahead(self, scores: Sequence[float]) -> bool:
        if not scores or scores[0] < self.threshold:
            return False
        return len(scores) == 1 or scores[0] - scores[1] >= self.gap


def candidate_of(thing: Thing) -> Candidate:
    return Candidate(
        source=SOURCE,
        id=thing.id,
        name=thing.name,
        aliases=thing.aliases,
        types=thing.types,
        description=thing.description,
        prominence=thing.prominence,
        facts=thing.properties,
        wikidata_id=thing.wikidata_id,
        dbpedia_uri=thing.dbpedia_uri,
    )


def _known(properties: Iterable[Known]) -> Mapping[str, Any]:
    """Local facts, as on an entity's row. Properties that are not in the catalogue say nothing to the linker."""
    known: dict[str, list[Any]] = {}
    for each in properties:
        if (property := catalogue().get(each.pid)) is not None:
            values = (_fact(value, property.kind) for value in each.values)
            known.setdefault(each.pid, []).extend(value for value in values if value is not None)
    return {key: values[0] if len(values) == 1 else values for key, values in known.items() if values}


def _fact(value: Value, kind: str) -> Any:
    """A cell of a table is text, also where it is a number; and a moment, where it is a day."""
    match value:
        case Reference():
            return {"id": value.id[:LONGEST_VALUE], "label": value.name[:LONGEST_VALUE]}
        case str() if not value.strip():
            return None
        case str() if kind in ("number", "amount"):
            return _number(value.strip()[:LONGEST_VALUE])
        case str() if kind == "date":
            return value.strip().partition("T")[0][:LONGEST_VALUE]
        case str():
            return value.strip()[:LONGEST_VALUE]
    return value


def _number(text: str) -> int | float | str:
    for read in (int, float):
        with suppress(ValueError):
            if math.isfinite(number := read(text)):
                return number
    return text


def _candidate(thing: Thing, score: float, match: bool, types: set[EntityType]) -> dict[str, Any]:
    features: list[dict[str, Any]] = [{"id": "prominence", "value": round(thing.prominence, 4)}]
    if types:
        features.append({"id": "type", "value": not types.isdisjoint(thing.types)})
    said = {"description": thing.description} if thing.description else {}
    return {
        "id": thing.id,
        "name": thing.name,
        **said,
        "type": vocabulary.types_of(thing.types),
        "score": round(100 * min(max(score, 0.0), 1.0), 2),
        "match": match,
        "features": features,
    }
