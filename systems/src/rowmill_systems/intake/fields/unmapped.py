"""Collect labelled values that no field of the catalogue took."""

import re
from collections.abc import Iterator

from rowmill_systems.intake.analysis import Unmapped
from rowmill_systems.intake.fields.candidates import FieldCandidate
from rowmill_systems.intake.fields.layout import Cell, Span
from rowmill_systems.intake.fields.view import View

LABEL = re.compile(r"([^\W\d_][^:：\t]{0,38}?)\s?[:：](?!//)\s*")
MOST = 50
MOST_WORDS = 5


def unmapped(view: View, chosen: list[FieldCandidate]) -> list[Unmapped]:
    """Return `Label: value` pairs in the order of the document, up to a bound."""
    taken = [span for candidate in chosen for span in candidate.spans]
    found = []
    for label, cell, start in _pairs(view):
        span = Span(cell.page, cell.line, start, cell.end)
        value = view.layout.text(span)
        if any(_touch(span, other) for other in taken):
            continue
        found.append(Unmapped(label, value, view.layout.evidence([span])))
        if len(found) >= MOST:
            break
    return found


def _pairs(view: View) -> Iterator[tuple[str, Cell, int]]:
    for cell in view.layout.cells():
        if view.table and (cell.page, cell.row) in view.table.lines:
            continue
        match = LABEL.match(cell.text)
        if not match or len(match.group(1).split()) > MOST_WORDS or any(hit.fields for hit in view.hits_in(cell)):
            continue
        if match.end() < len(cell.text):
            yield match.group(1), cell, cell.start + match.end()
        else:
            right = view.layout.right_of(cell)
            if right and not view.hits_in(right[0]) and not right[0].text.endswith(":"):
                yield match.group(1), right[0], right[0].start


def _touch(one: Span, other: Span) -> bool:
    return one.page == other.page and one.line == other.line and one.start < other.end and other.start < one.end
