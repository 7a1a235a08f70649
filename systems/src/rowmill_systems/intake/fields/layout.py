"""Split lines into cells, and find what is right of a cell and below it."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from statistics import median

from rowmill_systems.intake.analysis import Evidence
from rowmill_systems.parts.documents.document import Box, Document, Line

GAP = re.compile(r"\t+| {2,}|(?<=\S) ?\|(?= |$)")
LONGEST_LINE = 2_000
MOST_LINES = 6_000
MOST_CHARACTERS = 400_000
# Cells of a row are compared with each other: a hostile line must not have thousands.
MOST_CELLS = 60
ROWS_BACK = 40
LONG = 0.25


@dataclass(frozen=True, slots=True)
class Cell:
    """A part of a line between wide gaps.

    Its place is in fractions of the page if the format has places; otherwise left and right count characters or
    columns, and top counts lines.
    """

    page: int
    line: int
    start: int
    end: int
    text: str
    row: int
    """The visual line on the page: lines of the text may stand side by side."""
    left: float
    right: float
    top: float
    bottom: float
    placed: bool = True
    """The file has places."""

    def over(self, other: "Cell") -> bool:
        """Whether one stands above the other: they share a part of their width."""
        return min(self.right, other.right) > max(self.left, other.left)


@dataclass(frozen=True, slots=True)
class Span:
    """A part of the text of a line."""

    page: int
    line: int
    start: int
    end: int


class Layout:
    """The cells of a document. Lines beyond the bounds are ignored, so that the mapping always ends."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.rows: list[list[list[Cell]]] = []
        lines_left, left = MOST_LINES, MOST_CHARACTERS
        for number, page in enumerate(document.pages):
            lines = list(_within(page.lines[:lines_left], left))
            lines_left -= len(lines)
            left -= sum(min(len(line.text), LONGEST_LINE) for line in lines)
            cells = [_cells(number, place, line) for place, line in enumerate(lines)]
            self.rows.append(_rows(_straight(cells, _slope(lines)) if page.scanned else cells))

    def cells(self) -> Iterator[Cell]:
        for page in self.rows:
            for row in page:
                yield from row

    def right_of(self, cell: Cell) -> list[Cell]:
        row = self.rows[cell.page][cell.row]
        return row[row.index(cell) + 1 :]

    def below(self, cell: Cell, lines: int = 2) -> Cell | None:
        """Return the next cell below this one, if it is near."""
        return next(iter(self.column_below(cell, lines)), None)

    def column_below(self, cell: Cell, lines: int) -> Iterator[Cell]:
        """Yield the cells below this one, line by line, until the column has a gap."""
        page, last = self.rows[cell.page], cell
        for row in page[cell.row + 1 : cell.row + 1 + 2 * lines]:
            under = [other for other in row if other.over(cell)]
            if not under:
                continue
            found = min(under, key=lambda other: abs(other.left - cell.left))
            if self.far(last, found):
                return
            yield found
            last, lines = found, lines - 1
            if not lines:
                return

    def column_above(self, cell: Cell, lines: int) -> Iterator[Cell]:
        """Yield the cells above this one with the same left edge, upwards, until the column has a gap."""
        page, last = self.rows[cell.page], cell
        for row in reversed(page[max(0, cell.row - 2 * lines) : cell.row]):
            over = [other for other in row if other.over(last) or _aligned(other, last)]
            if not over:
                if row and row[0].placed and last.top - row[0].bottom < 2 * (last.bottom - last.top):
                    continue
                return
            found = min(over, key=lambda other: abs(other.left - last.left))
            if self.far(found, last):
                return
            yield found
            last, lines = found, lines - 1
            if not lines:
                return

    def far(self, above: Cell, below: Cell) -> bool:
        """Whether there is more than an empty line between them."""
        height = max(above.bottom - above.top, below.bottom - below.top)
        return below.top - above.bottom > 1.8 * height

    def text(self, span: Span) -> str:
        return self.document.pages[span.page].lines[span.line].text[span.start : span.end]

    def line_text(self, cell: Cell) -> str:
        return self.document.pages[cell.page].lines[cell.line].text[:LONGEST_LINE]

    def evidence(self, spans: Sequence[Span]) -> Evidence:
        """Return the text at these places, line by line, and the boxes of its words."""
        boxes: list[Box] = []
        for span in spans:
            boxes += boxes_of(self.document.pages[span.page].lines[span.line], span.start, span.end)
        quote = "\n".join(self.text(span) for span in spans)
        return Evidence(self.document.pages[spans[0].page].number, quote, tuple(boxes))

    def part(self, cell: Cell, start: int, end: int) -> Cell:
        """A part of a cell as a cell; its places are in the text of the cell."""
        line = self.document.pages[cell.page].lines[cell.line]
        column = line.text.count("\t", 0, cell.start)
        part = _cell(cell.page, cell.line, line, cell.start + start, cell.start + end, column)
        return replace(part, row=cell.row)


def span_of(cell: Cell) -> Span:
    return Span(cell.page, cell.line, cell.start, cell.end)


def _aligned(one: Cell, other: Cell) -> bool:
    return abs(one.left - other.left) < 0.01


def boxes_of(line: Line, start: int, end: int) -> Iterator[Box]:
    """Yield the boxes of the words in text[start:end]; for a partial word, its share."""
    place = 0
    for word in line.words:
        at = line.text.find(word.text, place)
        if at < 0 or not word.text:
            continue
        place = at + len(word.text)
        if at < end and place > start:
            box, wide = word.box, (word.box.right - word.box.left) / len(word.text)
            left, right = box.left + wide * max(0, start - at), box.right - wide * max(0, place - end)
            yield box if (left, right) == (box.left, box.right) else Box(left, box.top, right, box.bottom)


def _within(lines: Iterable[Line], characters: int) -> Iterator[Line]:
    for line in lines:
        characters -= min(len(line.text), LONGEST_LINE)
        if characters < 0:
            return
        yield line


def _slope(lines: Sequence[Line]) -> float:
    """Return how much a scan falls from left to right, by most of its long lines."""
    slopes = []
    for line in lines:
        if len(line.words) > 2:
            first, last = line.words[0].box, line.words[-1].box
            if last.left - first.left > LONG:
                slopes.append((last.bottom - first.bottom) / (last.left - first.left))
    return median(slopes) if len(slopes) > 2 else 0.0


def _straight(lines: list[list[Cell]], slope: float) -> list[list[Cell]]:
    """Return the cells with tops and bottoms as on a straight page."""
    return [
        [replace(cell, top=cell.top - slope * cell.left, bottom=cell.bottom - slope * cell.left) for cell in cells]
        for cells in lines
    ]


def _rows(lines: list[list[Cell]]) -> list[list[Cell]]:
    """Lines that stand beside each other made one row. A reader may give the columns of a page one after the other."""
    rows: list[list[Cell]] = []
    for cells in lines:
        beside = next((row for row in reversed(rows[-ROWS_BACK:]) if _beside(row, cells)), None)
        if beside is None:
            rows.append(cells)
        else:
            beside.extend(cells)
            beside.sort(key=lambda cell: cell.left)
    return [[replace(cell, row=number) for cell in row] for number, row in enumerate(rows)]


def _beside(row: Sequence[Cell], cells: Sequence[Cell]) -> bool:
    """Return whether rows stand at the same height without overlapping. Only the nearest cells are compared, since
    scans are askew."""
    if not row or not cells or not row[0].placed or not cells[0].placed:
        return False
    if any(one.left < other.right and other.left < one.right for one in row for other in cells):
        return False
    one, other = min(
        ((one, other) for one in row for other in cells),
        key=lambda pair: min(abs(pair[0].left - pair[1].right), abs(pair[1].left - pair[0].right)),
    )
    apart = abs((one.top + one.bottom) - (other.top + other.bottom)) / 2
    return apart < 0.4 * min(one.bottom - one.top, other.bottom - other.top)


def _cells(page: int, number: int, line: Line) -> list[Cell]:
    text = line.text[:LONGEST_LINE]
    cells, start = [], 0
    for gap in [*islice(GAP.finditer(text), MOST_CELLS - 1), None]:
        end = gap.start() if gap else len(text)
        part = text[start:end]
        if part.strip():
            first = start + len(part) - len(part.lstrip())
            last = end - len(part) + len(part.rstrip())
            cells.append(_cell(page, number, line, first, last, text.count("\t", 0, first)))
        start = gap.end() if gap else end
    return cells


def _cell(page: int, number: int, line: Line, start: int, end: int, column: int) -> Cell:
    boxes = list(boxes_of(line, start, end)) if line.words else []
    text = line.text[start:end]
    if boxes:
        left, right = min(box.left for box in boxes), max(box.right for box in boxes)
        top, bottom = min(box.top for box in boxes), max(box.bottom for box in boxes)
        return Cell(page, number, start, end, text, number, left, right, top, bottom)
    if "\t" in line.text:
        # Cells of sheets and tables: the same column is the same number of tabs.
        return Cell(
            page, number, start, end, text, number, column * 100, column * 100 + 99, number, number + 0.9, False
        )
    return Cell(page, number, start, end, text, number, start, end, number, number + 0.9, False)
