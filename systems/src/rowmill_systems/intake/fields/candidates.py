"""Candidates for the value of a field, and the choice among them."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rowmill_systems.intake.fields.catalogue import Field
from rowmill_systems.intake.fields.layout import Span

LEAST = 0.3
DOUBT = 0.94
MOST_VALUES = 20
MOST_CANDIDATES = 60


@dataclass(frozen=True, slots=True)
class FieldCandidate:
    field: Field
    value: Any
    score: float
    spans: tuple[Span, ...]

    def times(self, factor: float) -> "FieldCandidate":
        return replace(self, score=min(1.0, self.score * factor))


def bounded(candidates: Iterable[FieldCandidate]) -> dict[str, list[FieldCandidate]]:
    """Group candidates by field, the best first, with a bounded number of each."""
    by_field: dict[str, list[FieldCandidate]] = {}
    for candidate in candidates:
        by_field.setdefault(candidate.field.key, []).append(candidate)
    return {
        key: sorted(found, key=lambda each: (-each.score, each.spans[0].page, each.spans[0].line))[:MOST_CANDIDATES]
        for key, found in by_field.items()
    }


def choose(by_field: dict[str, list[FieldCandidate]]) -> list[FieldCandidate]:
    """Return the best value of each field.

    It is surer if the document says it twice, and less sure if it says another one too. A value that two fields of one
    type claim goes to the surer one.
    """
    merged = sorted(
        (each for found in by_field.values() for each in _merged(found)), key=lambda each: -each.score
    )  # fmt: skip
    taken: dict[Span, str] = {}
    chosen: dict[str, list[FieldCandidate]] = {}
    for candidate in merged:
        have = chosen.setdefault(candidate.field.key, [])
        claimed = any(taken.get(span) == candidate.field.type for span in candidate.spans)
        full = len(have) >= (MOST_VALUES if candidate.field.many else 1)
        if claimed or full or candidate.score < LEAST:
            continue
        have.append(candidate)
        taken |= dict.fromkeys(candidate.spans, candidate.field.type)
    return [candidate for found in chosen.values() for candidate in found]


def _merged(found: Sequence[FieldCandidate]) -> list[FieldCandidate]:
    groups: dict[str, list[FieldCandidate]] = {}
    for candidate in found:
        groups.setdefault(json.dumps(candidate.value, sort_keys=True), []).append(candidate)
    best = []
    for group in groups.values():
        places = {each.spans[0] for each in group}
        best.append(replace(group[0], score=1 - (1 - group[0].score) * 0.8 ** (len(places) - 1)))
    best.sort(key=lambda each: -each.score)
    if len(best) > 1 and not best[0].field.many and best[1].score > 0.93 * best[0].score:
        return [each.times(DOUBT) for each in best]
    return best
