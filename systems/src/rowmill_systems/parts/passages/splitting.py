"""Fill passages with the units of blocks."""

import re
from collections.abc import Iterator

from rowmill_systems.parts.documents.document import Document, Page
from rowmill_systems.parts.models.tokens import estimate_tokens
from rowmill_systems.parts.passages.blocks import BlockKind, TextBlock, blocks_of
from rowmill_systems.parts.passages.headings import HeadingPath
from rowmill_systems.parts.passages.passage import Passage
from rowmill_systems.parts.passages.units import fitting, units_of

LONGEST_HEADER = 0.25
"""As a share of a passage: a longer header of a table is not repeated."""
_NUMERIC = re.compile(r"[-+(]?[\d.,%€$£¥/: ]+\)?")


def split(document: Document, *, most_tokens: int) -> Iterator[Passage]:
    """Yield the passages of a document in their order. None has more than `most_tokens`, by estimate."""
    path = HeadingPath()
    for page in document.pages:
        yield from PageSplitter(page, path, most_tokens).passages()


class PageSplitter:
    """Collects units until a passage is full, or another heading begins."""

    def __init__(self, page: Page, path: HeadingPath, most: int) -> None:
        self._page, self._path, self._most = page, path, most
        self._text = ""
        self._has_body = False
        """Not only headings, which stay with what follows."""

    def passages(self) -> Iterator[Passage]:
        for block in blocks_of(self._page.lines):
            if block.kind is BlockKind.HEADING:
                yield from self._begin_section(block)
            elif block.kind is BlockKind.TABLE:
                yield from self._add_table(block)
            else:
                yield from self._add(block)
        yield from self._flush()

    def _begin_section(self, block: TextBlock) -> Iterator[Passage]:
        if self._has_body:
            yield from self._flush()
        self._path.enter(block.level, block.words)
        for piece in units_of(block, self._most):
            yield from self._take(piece)

    def _add(self, block: TextBlock) -> Iterator[Passage]:
        for unit in units_of(block, self._most):
            yield from self._take(unit)
            self._has_body = True

    def _add_table(self, block: TextBlock) -> Iterator[Passage]:
        """A table that is split begins with its header in each passage."""
        header = header_of(block, self._most)
        if estimate_tokens("\n".join(block.lines)) <= self._most or not header:
            yield from self._add(block)
            return
        rows = block.lines[1:]
        yield from self._take(header)
        self._has_body = True
        for row in rows:
            for piece in fitting(f"{row}\n", self._most - estimate_tokens(header)):
                if not self._fits(piece):
                    yield from self._flush()
                    self._text = header
                self._text += piece
                self._has_body = True

    def _take(self, unit: str) -> Iterator[Passage]:
        if not self._fits(unit):
            yield from self._flush()
        self._text += unit

    def _fits(self, unit: str) -> bool:
        return estimate_tokens((self._text + unit).strip()) <= self._most

    def _flush(self) -> Iterator[Passage]:
        text = self._text.strip()
        self._text, self._has_body = "", False
        if text:
            yield Passage(self._page.number, self._page.title, str(self._path), text)


def header_of(block: TextBlock, most: int) -> str:
    """Return the first row of a table if it names its columns: it has no numbers, and is short."""
    header = f"{block.lines[0]}\n"
    cells = [cell for cell in block.lines[0].split("\t") if cell.strip()]
    named = len(cells) > 1 and not any(_NUMERIC.fullmatch(cell.strip()) for cell in cells)
    return header if named and estimate_tokens(header) <= LONGEST_HEADER * most else ""
