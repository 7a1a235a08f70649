"""Compare suggestions with the known answers."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any

from demos.papers.paper import Paper
from rowmill_systems.intake.analysis import Suggestion
from rowmill_systems.intake.fields.catalogue import Catalogue, FieldType
from rowmill_systems.intake.fields.folding import plain


class Outcome(StrEnum):
    RIGHT = "right"
    WRONG = "wrong"
    MISSED = "missed"
    SPURIOUS = "spurious"
    """Suggested for a field that the paper does not have."""


@dataclass(frozen=True, slots=True)
class Verdict:
    paper: Paper
    field: str
    type: FieldType
    outcome: Outcome
    confidence: float | None
    """None if nothing was suggested."""


def judge(paper: Paper, suggestions: Iterable[Suggestion], catalogue: Catalogue) -> list[Verdict]:
    """Return one verdict for every expected value, and one for every other suggestion."""
    types = {field.key: field.type for field in catalogue.fields}
    by_field: dict[str, list[Suggestion]] = {}
    for suggestion in suggestions:
        by_field.setdefault(suggestion.field, []).append(suggestion)
    verdicts = []
    for key in [*paper.expected, *(key for key in by_field if key not in paper.expected)]:
        for outcome, confidence in _compared(types[key], paper.expected.get(key), by_field.get(key, [])):
            verdicts.append(Verdict(paper, key, types[key], outcome, confidence))
    return verdicts


def _compared(kind: FieldType, expected: Any, found: list[Suggestion]) -> list[tuple[Outcome, float | None]]:
    wanted = [] if expected is None else expected if _several(kind, expected) else [expected]
    left, answers = list(found), list[tuple[Outcome, float | None]]()
    open_values = []
    for value in wanted:
        match = next((one for one in left if same(kind, one.value, value)), None)
        if match:
            left.remove(match)
            answers.append((Outcome.RIGHT, match.confidence))
        else:
            open_values.append(value)
    for _ in open_values:
        answers.append((Outcome.WRONG, left.pop(0).confidence) if left else (Outcome.MISSED, None))
    return answers + [(Outcome.SPURIOUS, one.confidence) for one in left]


def _several(kind: FieldType, expected: Any) -> bool:
    return isinstance(expected, list) and kind is not FieldType.TABLE


def same(kind: FieldType, found: Any, expected: Any) -> bool:
    """Compare two values. Numbers, dates, currencies and cells of tables must be equal. Words are compared without
    case, accents, spaces and punctuation."""
    if kind is FieldType.AMOUNT:
        return Decimal(found["amount"]) == Decimal(expected["amount"]) and bool(
            found["currency"] == expected["currency"]
        )
    if kind is FieldType.TABLE:
        return [_bare_row(row) for row in found] == [_bare_row(row) for row in expected]
    if kind is FieldType.PHONE:
        return re.sub(r"\D", "", found) == re.sub(r"\D", "", expected)
    if kind in (FieldType.DATE, FieldType.NUMBER, FieldType.EMAIL):
        return bool(found == expected)
    return bare(found) == bare(expected)


def bare(text: str) -> str:
    return re.sub(r"[\W_]+", "", plain(text))


def _bare_row(row: dict[str, str]) -> dict[str, str]:
    return {column: bare(text) if column == "description" else re.sub(r"\s", "", text) for column, text in row.items()}
