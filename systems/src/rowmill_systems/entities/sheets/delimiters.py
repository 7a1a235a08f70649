"""Which sign parts the cells of a file."""

import csv
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

DELIMITERS = (",", ";", "\t", "|")
SAID = re.compile(r"sep=([,;\t|:])\r?\n", re.IGNORECASE)
"""A first line that spreadsheets write, and take to heart."""
MOST_ROWS = 100


def delimiter_of(start: str, *, whole: bool) -> str:
    """Of the start of a file: the sign that gives several columns, and to the most rows as many as to the first. A file
    of one column has none, and gets one that its rows do not have. `whole`: it is no start but all of it."""
    found = {}
    for delimiter in DELIMITERS:
        rows = _rows(start, delimiter, whole)
        if rows:
            found[delimiter] = _fit(rows)
    several = {each: fit for each, fit in found.items() if fit.columns > 1}
    if several:
        return max(several, key=lambda each: _goodness(several[each]))
    one = [each for each, fit in found.items() if fit.columns == 1 and fit.exact == 1]
    return one[0] if one else ","


class _Fit(NamedTuple):
    columns: int
    """Of the first row."""
    exact: float
    """The share of rows that have as many cells."""
    bearable: float
    """And of those that have fewer, or more that are empty."""


def _fit(rows: list[list[str]]) -> _Fit:
    columns = len(rows[0])
    exact = sum(len(row) == columns for row in rows)
    bearable = sum(not any(row[columns:]) for row in rows)
    return _Fit(columns, exact / len(rows), bearable / len(rows))


def _goodness(fit: _Fit) -> tuple[float, float, int]:
    """A few rows that are odd say little."""
    return round(fit.bearable, 1), round(fit.exact, 1), fit.columns


def _rows(start: str, delimiter: str, whole: bool) -> list[list[str]]:
    rows: list[list[str]] = []
    try:
        for row in csv.reader(_lines(start), delimiter=delimiter, strict=True):
            if row:
                rows.append(row)
            if len(rows) > MOST_ROWS:
                break
    except csv.Error:
        return rows  # a quote that is open where the start of the file ends
    return rows if whole or len(rows) > MOST_ROWS else rows[:-1] or rows


def _lines(text: str) -> Iterator[str]:
    """With their ends, which are a part of a cell in quotes."""
    ends: Iterable[re.Match[str]] = re.finditer(r"[^\r\n]*(?:\r\n|\r|\n|$)", text)
    return (match[0] for match in ends if match[0])
