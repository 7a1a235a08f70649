"""Merge local facts with those of sources, and find contradictions."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rowmill_systems.entities.properties.catalogue import Property, catalogue
from rowmill_systems.entities.properties.compare import agree, finer
from rowmill_systems.entities.things import Fact
from rowmill_systems.parts.values import value_hash

LOCAL = "local"
DECISION = "decision"
"""The source of a value that a person chose in place of two others."""


@dataclass(frozen=True, slots=True)
class ValueConflict:
    """Two values for a property that has one. The current value holds until a person decides."""

    property: str
    current_value: Any
    current_source: str
    other_value: Any
    other_source: str

    def hash(self) -> str:
        """Return a hash of the two values, whatever their sources."""
        return value_hash([self.current_value, self.other_value])


@dataclass(slots=True)
class Claim:
    """A value, and all who say so, with the id by which they know the thing."""

    value: Any
    sources: list[dict[str, str]]

    @property
    def who(self) -> str:
        return "+".join(source["source"] for source in self.sources)


@dataclass(slots=True)
class Merged:
    properties: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """By property its values, each with `value` and `sources`; of a property that has one value, one."""
    conflicts: list[ValueConflict] = field(default_factory=list)
    """All of them, also those that were decided."""


def merge(
    local: Mapping[str, Any] | None,
    facts: Sequence[Fact],
    believed: Sequence[str],
    decisions: Mapping[tuple[str, str], Any],
) -> Merged:
    """Merge facts.

    `believed` lists the sources, the most trusted first; `decisions` has the values that people chose, by property and
    hash of the conflict, the latest last. Only a decision overrides a local fact.
    """
    rank = {source: number for number, source in enumerate(believed)}
    ordered = sorted(facts, key=lambda fact: (rank.get(fact.source, len(rank)), fact.source, fact.property))
    known, merged = catalogue(), Merged()
    for key in dict.fromkeys([*(local or {}), *(fact.property for fact in ordered)]):
        told = list(_told(key, local or {}, ordered))
        if not told:
            continue
        property = known.get(key)
        if property is None:
            claims = [Claim(value, [source]) for value, source in told]
        elif property.many:
            claims = _united(property, told)
        else:
            claims = [_single(property, told, decisions, merged.conflicts)]
        merged.properties[key] = [{"value": claim.value, "sources": claim.sources} for claim in claims]
    return merged


def _told(key: str, local: Mapping[str, Any], facts: Sequence[Fact]) -> Iterator[tuple[Any, dict[str, str]]]:
    """Yield every value with its sources, local ones first. Null values say nothing."""
    if (value := local.get(key)) is not None:
        for one in value if isinstance(value, list) else [value]:
            if one is not None:
                yield one, {"source": LOCAL}
    for fact in facts:
        if fact.property == key:
            for one in fact.values:
                if one is not None:
                    yield one, {"source": fact.source, "ref": fact.ref}


def _united(property: Property, told: Sequence[tuple[Any, dict[str, str]]]) -> list[Claim]:
    """Join values that agree."""
    claims: list[Claim] = []
    for value, source in told:
        claim = next((claim for claim in claims if agree(property, claim.value, value)), None)
        if claim is None:
            claims.append(Claim(value, [source]))
            continue
        if source not in claim.sources:
            claim.sources.append(source)
        if claim.sources[0]["source"] != LOCAL and finer(property, claim.value, value):
            claim.value = value
    return claims


def _single(
    property: Property,
    told: Sequence[tuple[Any, dict[str, str]]],
    decisions: Mapping[tuple[str, str], Any],
    conflicts: list[ValueConflict],
) -> Claim:
    """Return the value of the most trusted source.

    A source with several values contradicts only if none of them agrees.
    """
    claims = _united(property, told)
    current, others = claims[0], claims[1:]
    content = {source["source"] for source in current.sources}
    chosen: list[tuple[int, Any]] = []
    order = list(decisions)
    for other in others:
        dissenting = [source for source in other.sources if source["source"] not in content]
        if not dissenting:
            continue
        who = Claim(other.value, dissenting).who
        conflict = ValueConflict(property.key, current.value, current.who, other.value, who)
        conflicts.append(conflict)
        if (place := (property.key, conflict.hash())) in decisions:
            chosen.append((order.index(place), decisions[place]))
    if not chosen:
        return current
    value = max(chosen, key=lambda pair: pair[0])[1]
    agreeing = next((claim for claim in claims if agree(property, claim.value, value)), None)
    sources = [{"source": DECISION}, *(agreeing.sources if agreeing else [])]
    return Claim(value, sources)
