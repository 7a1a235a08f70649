"""Find tables of line items: a header of known columns, and the rows below it up to the totals."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources

from rowmill_systems.intake.fields.amounts import find_amounts
from rowmill_systems.intake.fields.labels import key_of
from rowmill_systems.intake.fields.layout import Cell, Layout, Span
from rowmill_systems.intake.fields.parties import tidy

MOST_ROWS = 500
NAMES: Mapping[str, list[str]] = tomllib.loads(resources.files(__package__).joinpath("columns.toml").read_text("utf-8"))
COLUMNS = {key_of(name): column for column, names in reversed(list(NAMES.items())) for name in names}
Place = tuple[int, int]
# OCR leaves gaps out: EinzelpreisGesamtpreis.
WORD = re.compile(r"[A-ZÀ-Ý.]+(?![^\sA-ZÀ-Ý.])|[A-ZÀ-Ý]?[^\sA-ZÀ-Ý]+|\S")
LINK = re.compile(r"www\.|@|https?:")
MOST_LINES = 5
NUMERIC = frozenset({"quantity", "price", "total"})
CURRENCY_ASIDE = re.compile(r"\s*(?:[(\[].{0,20}[)\]]|in (?:EUR|USD|GBP|CHF|€)|EUR|USD|GBP|CHF|€|\$|£)\s*\.?$")


@dataclass(slots=True)
class Table:
    """The columns by their header cells, and the rows as cells by column."""

    header: list[tuple[str, Cell]]
    rows: list[dict[str, list[Cell]]] = field(default_factory=list)
    lines: set[tuple[int, int]] = field(default_factory=set)
    """Page and row of all that belongs to it."""

    def spans(self) -> list[Span]:
        """One span a line, from its first cell to its last."""
        by_line: dict[tuple[int, int], list[Cell]] = {}
        for row in self.rows:
            for cells in row.values():
                for cell in cells:
                    by_line.setdefault((cell.page, cell.line), []).append(cell)
        return [
            Span(page, line, min(cell.start for cell in cells), max(cell.end for cell in cells))
            for (page, line), cells in sorted(by_line.items())
        ]

    def value(self, columns: Sequence[str]) -> list[dict[str, str]]:
        return [
            {column: tidy(" ".join(cell.text for cell in row[column])) for column in columns if column in row}
            for row in self.rows
        ]


def find_table(layout: Layout, stops: set[Place], labelled: set[Place]) -> Table | None:
    """Return the table of line items.

    `stops` are rows that name a total, which are not items. A row that begins with a label does not continue the
    description above. A header that is repeated on the next page continues the table.
    """
    table: Table | None = None
    for page in layout.rows:
        place = 0
        while place < len(page):
            header = header_of(layout, page[place])
            if header and (table is None or _names(header) == _names(table.header)):
                table = table or Table(header)
                place = _take_rows(layout, table, header, page, place, stops, labelled)
            else:
                place += 1
    return table if table and table.rows else None


def _names(header: Sequence[tuple[str, Cell]]) -> set[str]:
    return {name for name, _ in header if name}


def header_of(layout: Layout, row: Sequence[Cell]) -> list[tuple[str, Cell]]:
    """The columns of a row, if it is a header: a description and a number of something, none twice. Columns that are
    not known have no name."""
    found: list[tuple[str, Cell]] = []
    for cell in row[:14]:
        columns = _columns(layout, cell)
        if not columns and not _wordy(cell.text):
            return []
        found += columns or [("", cell)]
    names = [name for name, _ in found if name]
    if len(names) < 2 or 2 * len(names) < len(found) or "description" not in names or not NUMERIC & set(names):
        return []
    seen: set[str] = set()
    return [(_once(name, seen), cell) for name, cell in found]


def _once(name: str, seen: set[str]) -> str:
    """Return the name if it comes first; an empty text if it was there before."""
    again = name in seen
    seen.add(name)
    return "" if again else name


def _columns(layout: Layout, cell: Cell) -> list[tuple[str, Cell]]:
    """Return the column that a cell names, or several if their headings stand so close that they became one cell."""
    if name := column_of(cell.text):
        return [(name, cell)]
    words = list(WORD.finditer(cell.text))
    if not 2 <= len(words) <= 10 or len(cell.text) > 60:
        return []
    for cut in range(len(words) - 1, 0, -1):
        if name := column_of(cell.text[: words[cut - 1].end()]):
            first = layout.part(cell, 0, words[cut - 1].end())
            rest = _columns(layout, layout.part(cell, words[cut].start(), len(cell.text)))
            if rest:
                return [(name, first), *rest]
    return []


def column_of(text: str) -> str | None:
    bare = CURRENCY_ASIDE.sub("", text.strip()).strip(" .:%")
    return COLUMNS.get(key_of(bare)) if 0 < len(bare) < 30 else None


def _wordy(text: str) -> bool:
    return len(text) < 30 and not any(sign.isdigit() for sign in text)


def _take_rows(
    layout: Layout, table: Table, header: list[tuple[str, Cell]], page: Sequence[Sequence[Cell]], at: int,
    stops: set[Place], labelled: set[Place],
) -> int:  # fmt: skip
    """Adds the rows under the header; answers the row after the last."""
    last, place = page[at][0], at + 1
    table.lines.add((last.page, last.row))
    while place < len(page) and len(table.rows) < MOST_ROWS:
        cells = page[place]
        place += 1
        if not cells:
            continue
        here = (cells[0].page, cells[0].row)
        if here in stops or (last.placed and cells[0].top - last.bottom > 0.08):
            return place - 1
        if not _take(layout, table, header, cells) and (here in labelled or not _goes_on(table, header, cells)):
            return place - 1
        table.lines.add(here)
        last = cells[0]
    return place


def _take(layout: Layout, table: Table, header: list[tuple[str, Cell]], cells: Sequence[Cell]) -> bool:
    """Puts a row into the table; False if it is no item."""
    placed: dict[str, list[Cell]] = {}
    for cell in cells:
        for piece in pieces(layout, cell):
            if column := _column(header, piece):
                placed.setdefault(column, []).append(piece)
    numbers = [name for name in NUMERIC if name in placed and _is_number(placed[name][0].text)]
    if not numbers or "description" not in placed or (len(numbers) == 1 and len(NUMERIC & _names(header)) > 1):
        return False
    table.rows.append(placed)
    return True


def _goes_on(table: Table, header: list[tuple[str, Cell]], cells: Sequence[Cell]) -> bool:
    """Adds a line of text to the description of the last row, where it stands under it."""
    if len(cells) > 1 or not table.rows or _column(header, cells[0]) != "description" or LINK.search(cells[0].text):
        return False
    lines = table.rows[-1]["description"]
    if len(lines) >= MOST_LINES:
        return False
    lines.append(cells[0])
    return True


def pieces(layout: Layout, cell: Cell) -> list[Cell]:
    """Split a cell of several numbers into one cell for each."""
    numbers = find_amounts(cell.text)
    if len(numbers) < 2 or any(sign.isalpha() for sign in cell.text):
        return [cell]
    return [layout.part(cell, number.start, number.end) for number in numbers]


def _is_number(text: str) -> bool:
    readings = find_amounts(text)
    return len(readings) >= 1 and readings[0].start <= 1


def _column(header: list[tuple[str, Cell]], cell: Cell) -> str:
    """Return the name of the column that overlaps the cell most, or the nearest one; empty if none is near."""

    def apart(column: tuple[str, Cell]) -> float:
        return max(column[1].left, cell.left) - min(column[1].right, cell.right)

    best = min(header, key=apart)
    edges = min(abs(best[1].left - cell.left), abs(best[1].right - cell.right))
    return "" if apart(best) >= 0 and edges > (0.2 if cell.placed else 12) else best[0]
