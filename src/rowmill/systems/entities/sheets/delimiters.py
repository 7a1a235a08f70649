"""Which sign parts the cells of a file."""

import csv
import re
from collections.abc import Iterable, Iterator

DELIMITERS = (",", ";", "\t", "|")
SAID = re.compile(r"sep=([,;\t|:])\r?\n", re.IGNORECASE)
"""A first line that spreadsheets write, and take to heart."""
ENOUGH = 0.9
MOST_ROWS = 100


def delimiter_of(start: str, *, whole: bool) -> str:
    """Of the start of a file: the sign that gives the most columns, and to nearly all rows as many as to the first. A
    file of one column has none, and gets one that its rows do not have. `whole`: it is no start but all of it."""
    found = {}
    for delimiter in DELIMITERS:
        rows = _rows(start, delimiter, whole)
        if rows:
            fitting = sum(len(row) == len(rows[0]) for row in rows)
            found[delimiter] = (len(rows[0]), fitting / len(rows))
    several = [each for each, (columns, share) in found.items() if columns > 1 and share >= ENOUGH]
    if several:
        return max(several, key=lambda each: found[each][0])
    one = [each for each, (columns, share) in found.items() if columns == 1 and share == 1]
    return one[0] if one else ","


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
