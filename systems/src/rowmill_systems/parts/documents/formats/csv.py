"""CSV and its relatives, whatever separates their cells."""

import csv
import io
from collections.abc import Iterator

from rowmill_systems.parts.documents.document import Line
from rowmill_systems.parts.documents.errors import CorruptFile
from rowmill_systems.parts.documents.reading import Contents, ReadingState, row_text
from rowmill_systems.parts.texts import decode, detect_delimiter


def read(file_bytes: bytes, reading: ReadingState) -> Contents:
    csv.field_size_limit(reading.limits.characters)
    text = decode(file_bytes)
    reading.progress(1, 1)
    delimiter = detect_delimiter(text)
    page = reading.page(1, _lines(text, delimiter, reading))
    return Contents((page,), {"rows": len(page.lines), "delimiter": "tab" if delimiter == "\t" else delimiter})


def _rows(text: str, delimiter: str) -> Iterator[list[str]]:
    return csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)


def _lines(text: str, delimiter: str, reading: ReadingState) -> Iterator[Line]:
    try:
        for row in _rows(text, delimiter):
            reading.count_cells(len(row))
            yield Line(row_text(row))
    except csv.Error as error:
        raise CorruptFile("a broken CSV") from error
