"""Find values beside their labels: after them in the cell, right of them, or below them."""

import re
from collections.abc import Iterator

from rowmill_systems.intake.fields.candidates import FieldCandidate
from rowmill_systems.intake.fields.catalogue import Field, FieldType
from rowmill_systems.intake.fields.labels import Hit
from rowmill_systems.intake.fields.layout import Cell, Span
from rowmill_systems.intake.fields.readings import FieldReading, read
from rowmill_systems.intake.fields.view import View

# Parties and addresses are many lines, and have rules of their own.
ELSEWHERE = {FieldType.PARTY, FieldType.ADDRESS, FieldType.TABLE}
WORDS = {FieldType.TEXT}
MOST_READINGS = 3
MAIL_HEAD = 0.65
BESIDE, RIGHT, BELOW = 1.0, 0.99, 0.93
SENTENCE = re.compile(r"(?<=[.!?。]) +(?=[A-ZÄÖÜÀ-Ý0-9\u3400-\u9fff])")


def labelled(view: View) -> Iterator[FieldCandidate]:
    """Yield the candidates of every label of the document."""
    for hits in view.hits.values():
        for hit in hits:
            for field in hit.fields:
                if field.type not in ELSEWHERE:
                    weight = MAIL_HEAD if view.in_mail_head(hit.cell) else 1.0
                    yield from (candidate.times(weight) for candidate in values_of(view, hit, field))


def values_of(view: View, hit: Hit, field: Field) -> Iterator[FieldCandidate]:
    """Yield the values that a label may mean, from the first place that has one."""
    if field.scheme == "sentence" and not hit.colon and not hit.alone:
        yield _sentence(view, hit, field)
        return
    for cell, start, end, weight in _places(view, hit, field):
        text = view.layout.line_text(cell)[start:end]
        readings = read(field, text, view.context)
        if field.type in WORDS and not hit.colon and cell is hit.cell:
            continue
        if readings:
            for rank, reading in enumerate(readings[: 1 if field.type in WORDS else MOST_READINGS]):
                sure = strength(hit, field) * weight * _distance(text, reading, field) * 0.75**rank
                yield _candidate(field, reading, cell, start, sure)
            return


def strength(hit: Hit, field: Field) -> float:
    """Return how much a label says, before its value is read."""
    sure = 0.97 if hit.colon else 0.94
    sure *= 1.0 if hit.leading else 0.88
    sure *= 0.45 if hit.qualified else 1.0
    sure *= 0.95 if hit.fuzzy else 1.0
    # Longer labels are more special: `Invoice date` says more than `Date`.
    return sure * (1.0 if hit.end - hit.start >= 8 else 0.96)


def _places(view: View, hit: Hit, field: Field) -> Iterator[tuple[Cell, int, int, float]]:
    cell = hit.cell
    # The name of a register is a part of its numbers: `HRB 12345`.
    start = hit.start if field.scheme == "register" else hit.end
    yield cell, start, _end_of_rest(view, hit, field), BESIDE
    if field.type is FieldType.NUMBER and field.scheme == "percent":
        yield cell, cell.start, cell.end, BESIDE
    rest = view.layout.line_text(cell)[hit.end : cell.end]
    if any(sign.isalnum() for sign in rest) and field.type in WORDS:
        return
    for other in view.layout.right_of(cell)[:4]:
        if view.is_label(other) and not (field.type in WORDS and view.is_word(other)):
            break
        yield other, other.start, other.end, RIGHT
    below = view.layout.below(cell)
    if below and hit.alone and not view.is_label(below):
        yield below, below.start, below.end, BELOW


def _end_of_rest(view: View, hit: Hit, field: Field) -> int:
    """Return where the rest of the cell ends: at the next label. Words may look like labels, so that text ends only at
    one with a colon."""
    for other in view.hits_in(hit.cell):
        if other.start >= hit.end and (
            other.colon or (field.type not in WORDS and other.fields and not other.qualified)
        ):
            return other.start
    return hit.cell.end


def _distance(text: str, reading: FieldReading, field: Field) -> float:
    """Lower the score if other words stand between label and value."""
    between = sum(sign.isalnum() for sign in text[: reading.start])
    return 1.0 if between <= 3 or field.type in WORDS else 0.9 if between <= 12 else 0.7


def _candidate(field: Field, reading: FieldReading, cell: Cell, start: int, sure: float) -> FieldCandidate:
    span = Span(cell.page, cell.line, start + reading.start, start + reading.end)
    return FieldCandidate(field, reading.value, sure * reading.sure, (span,))


def _sentence(view: View, hit: Hit, field: Field) -> FieldCandidate:
    """Return the sentence around the label."""
    cell = hit.cell
    edges = [0, *(match.end() for match in SENTENCE.finditer(cell.text)), len(cell.text)]
    inside = hit.start - cell.start
    first = max(edge for edge in edges if edge <= inside)
    last = min(edge for edge in edges if edge > inside)
    text = cell.text[first:last].rstrip()
    span = Span(cell.page, cell.line, cell.start + first, cell.start + first + len(text))
    return FieldCandidate(field, text, 0.8 * (0.5 if hit.qualified and hit.leading else 1.0), (span,))
