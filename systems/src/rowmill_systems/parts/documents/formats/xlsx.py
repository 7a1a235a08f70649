"""Excel: a page per sheet, its cells as a person sees them. Formulas have the value of the last save."""

import io
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from typing import Any

import openpyxl  # type: ignore[import-untyped]

from rowmill_systems.parts.documents.document import Line
from rowmill_systems.parts.documents.formats.xlsx_cells import shown
from rowmill_systems.parts.documents.reading import Contents, ReadingState, known, row_text


def read(file_bytes: bytes, reading: ReadingState) -> Contents:
    with closing(openpyxl.load_workbook(io.BytesIO(file_bytes), read_only=True, data_only=True)) as book:
        sheets = book.worksheets
        reading.limits.check("pages", reading.pages + len(sheets), reading.limits.pages)
        pages = []
        for number, sheet in enumerate(sheets, 1):
            reading.progress(number, len(sheets))
            pages.append(reading.page(number, _lines(sheet, reading), title=sheet.title))
        said = book.properties
        facts = known(
            {
                "title": said.title,
                "author": said.creator,
                "created": said.created.date().isoformat() if isinstance(said.created, datetime) else None,
                "sheets": len(sheets),
            }
        )
    return Contents(tuple(pages), facts)


def _lines(sheet: Any, reading: ReadingState) -> Iterator[Line]:
    # The size that the file gives is often wrong, and in hostile files huge.
    sheet.reset_dimensions()
    for row in sheet.iter_rows():
        reading.count_cells(max(len(row), 1))  # rows that are only skipped count, too
        yield Line(row_text(shown(cell.value, cell.number_format) if cell.value is not None else "" for cell in row))
