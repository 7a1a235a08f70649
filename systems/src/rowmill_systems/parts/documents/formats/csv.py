"""CSV and its relatives: whatever parts its cells, they come out between tabs."""

import csv
import io
import re
from collections.abc import Iterator
from itertools import islice

from rowmill_systems.parts.documents.document import Line
from rowmill_systems.parts.documents.errors import CorruptFile
from rowmill_systems.parts.documents.reading import Contents, Reading, row_text
from rowmill_systems.parts.documents.texts import decode

DELIMITERS = ",;\t|"
SAMPLE = 50
BETWEEN_DIGITS = re.compile(r"(?<=\d),(?=\d)")


def read(file_bytes: bytes, reading: Reading) -> Contents:
    csv.field_size_limit(reading.limits.characters)
    text = decode(file_bytes)
    reading.progress(1, 1)
    delimiter = delimiter_of(text)
    page = reading.page(1, _lines(text, delimiter, reading))
    return Contents((page,), {"rows": len(page.lines), "delimiter": "tab" if delimiter == "\t" else delimiter})


def delimiter_of(text: str) -> str:
    """The one that parts most rows; among equals, the one that parts them most evenly, then the one that makes more
    cells. Commas between digits do not count: in half of the world they are decimal ones, and there semicolons part the
    cells."""
    best, found = (0, 0, 0), ","
    for delimiter in DELIMITERS:
        try:
            sample = BETWEEN_DIGITS.sub("", text) if delimiter == "," else text
            widths = [len(row) for row in islice(_rows(sample, delimiter), SAMPLE) if len(row) > 1]
        except csv.Error:
            continue
        usual = max(set(widths), key=widths.count, default=0)
        score = (len(widths), widths.count(usual), usual)
        if score > best:
            best, found = score, delimiter
    return found


def _rows(text: str, delimiter: str) -> Iterator[list[str]]:
    return csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)


def _lines(text: str, delimiter: str, reading: Reading) -> Iterator[Line]:
    try:
        for row in _rows(text, delimiter):
            reading.count_cells(len(row))
            yield Line(row_text(row))
    except csv.Error as error:
        raise CorruptFile("a broken CSV") from error
