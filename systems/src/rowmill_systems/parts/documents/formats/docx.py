"""Word: paragraphs, tables, text boxes and content controls in the order of the document, between headers and footers.

The XML is walked here, because the lists of python-docx leave out content controls and text boxes, where forms keep
their answers.
"""

import io
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import docx
from docx.oxml.ns import qn
from lxml import etree  # type: ignore[import-untyped]

from rowmill_systems.parts.documents.reading import Contents, Facts, ReadingState, known, plain_lines, row_text

PARAGRAPH, TABLE, ROW, CELL = qn("w:p"), qn("w:tbl"), qn("w:tr"), qn("w:tc")
TEXT, TAB, BREAK, BOX = qn("w:t"), qn("w:tab"), qn("w:br"), qn("w:txbxContent")
RENDERED_BREAK = qn("w:lastRenderedPageBreak")
FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
"""A copy of a text box for programs that don't know text boxes."""
MARKS = {TAB: "\t", qn("w:cr"): "\n", qn("w:noBreakHyphen"): "-"}
PROPERTIES = {
    qn("w:pPr"),
    qn("w:rPr"),
    qn("w:tblPr"),
    qn("w:trPr"),
    qn("w:tcPr"),
    qn("w:sdtPr"),
    qn("w:sectPr"),
    qn("w:moveFrom"),
}
"""Settings, whose tabs are tab stops and not text; and text that was moved elsewhere, which is still in the file."""


class _Walk:
    def __init__(self, body: Any) -> None:
        # Word notes where pages began when it last showed the file; other programs leave only what was asked for.
        self._rendered = next(body.iter(RENDERED_BREAK), None) is not None

    def blocks(self, element: Any) -> Iterator[str]:
        for child in element:
            if child.tag == PARAGRAPH:
                yield self.paragraph(child)
                for box in self._boxes(child):
                    yield from self.blocks(box)
            elif child.tag == TABLE:
                yield from self.rows(child)
            elif child.tag not in PROPERTIES and child.tag != FALLBACK:
                yield from self.blocks(child)

    def rows(self, table: Any) -> Iterator[str]:
        for row in self._own(table, ROW, TABLE):
            cells = ["\n".join(self.blocks(cell)) for cell in self._own(row, CELL, TABLE)]
            yield "\f" * any("\f" in cell for cell in cells) + row_text(cells)

    def paragraph(self, paragraph: Any) -> str:
        parts = []
        for node in self._own(paragraph, None, BOX):
            if node.tag == TEXT:
                parts.append(node.text or "")
            elif node.tag == BREAK:
                paged = node.get(qn("w:type")) == "page"
                parts.append("\n" if not paged else "" if self._rendered else "\f")
            elif node.tag == RENDERED_BREAK:
                parts.append("\f")
            else:
                parts.append(MARKS.get(node.tag, ""))
        return "".join(parts)

    def _boxes(self, paragraph: Any) -> Iterator[Any]:
        return (node for node in self._own(paragraph, BOX, None))

    def _own(self, element: Any, wanted: str | None, border: str | None) -> Iterator[Any]:
        """Yield the elements of these tags inside an element, but not those nested in one of them, in settings or in
        fallbacks."""
        walk = etree.iterwalk(element, events=("start",))
        for _, node in walk:
            if node is element:
                continue
            if node.tag in (border, FALLBACK) or node.tag in PROPERTIES:
                walk.skip_subtree()
            elif wanted is None or node.tag == wanted:
                if wanted is not None:
                    walk.skip_subtree()
                yield node


def read(file_bytes: bytes, reading: ReadingState) -> Contents:
    document = docx.Document(io.BytesIO(file_bytes))
    body = document.element.body
    walk = _Walk(body)
    lines = [*_edges(document, "header", walk), *walk.blocks(body), *_edges(document, "footer", walk)]
    parts = "\n".join(lines).split("\f")
    pages = [part for part in parts if part.strip()] or [""]
    reading.progress(1, len(pages))
    return Contents(
        tuple(reading.page(number, plain_lines([part])) for number, part in enumerate(pages, 1)), _facts(document)
    )


def _edges(document: Any, name: str, walk: _Walk) -> Iterator[str]:
    """Yield the text of headers or footers, each once, however many sections share it."""
    seen = set()
    for section in document.sections:
        for kind in (f"first_page_{name}", name, f"even_page_{name}"):
            edge = getattr(section, kind)
            if not edge.is_linked_to_previous and edge.part.partname not in seen:
                seen.add(edge.part.partname)
                yield from walk.blocks(edge._element)


def _facts(document: Any) -> Facts:
    said = document.core_properties
    created = said.created
    return known(
        {
            "title": said.title,
            "author": said.author,
            "created": created.date().isoformat() if isinstance(created, datetime) else None,
        }
    )
