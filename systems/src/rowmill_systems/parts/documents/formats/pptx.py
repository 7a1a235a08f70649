"""PowerPoint: a page per slide, its shapes from top to bottom, then its notes."""

import io
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pptx

from rowmill_systems.parts.documents.reading import Contents, ReadingState, known, plain_lines, row_text


def read(file_bytes: bytes, reading: ReadingState) -> Contents:
    show = pptx.Presentation(io.BytesIO(file_bytes))
    number = len(show.slides)
    reading.limits.check("pages", reading.pages + number, reading.limits.pages)
    pages = []
    for index, slide in enumerate(show.slides, 1):
        reading.progress(index, number)
        pages.append(reading.page(index, plain_lines(_texts(slide)), title=_title(slide)))
    said = show.core_properties
    facts = known(
        {
            "title": said.title,
            "author": said.author,
            "created": said.created.date().isoformat() if isinstance(said.created, datetime) else None,
            "slides": number,
        }
    )
    return Contents(tuple(pages), facts)


def _title(slide: Any) -> str:
    shape = slide.shapes.title
    return " ".join(shape.text_frame.text.split())[:200] if shape is not None else ""


def _texts(slide: Any) -> Iterator[str]:
    yield from _shapes(slide.shapes)
    if slide.has_notes_slide and (frame := slide.notes_slide.notes_text_frame) is not None:
        yield _frame(frame)


def _shapes(shapes: Any) -> Iterator[str]:
    """Yield shapes by their place.

    A placeholder without a place takes that of its layout, and comes first if there is none.
    """
    for shape in sorted(shapes, key=lambda shape: (shape.top or 0, shape.left or 0)):
        if hasattr(shape, "shapes"):
            yield from _shapes(shape.shapes)
        elif getattr(shape, "has_table", False):
            yield from (row_text(cell.text for cell in row.cells if not cell.is_spanned) for row in shape.table.rows)
        elif shape.has_text_frame:
            yield _frame(shape.text_frame)


def _frame(frame: Any) -> str:
    return "\n".join(paragraph.text.replace("\v", "\n") for paragraph in frame.paragraphs)
