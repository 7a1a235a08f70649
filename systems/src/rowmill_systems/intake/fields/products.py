"""Find a table with an unknown header by its rows: quantity times price is the total."""

import re
from collections.abc import Sequence
from decimal import Decimal

from rowmill_systems.intake.fields.amounts import AmountReading, find_amounts
from rowmill_systems.intake.fields.layout import Cell, Layout
from rowmill_systems.intake.fields.tables import LINK, MOST_LINES, MOST_ROWS, Place, Table, pieces

CENT = Decimal("0.02")
MOST_CELLS = 12
WORDS = re.compile(r"[^\W\d_]{2,}")


def table_by_products(layout: Layout, stops: set[Place], labelled: set[Place]) -> Table | None:
    """Return the first consecutive rows that confirm themselves, at least two."""
    table = Table([])
    for page in layout.rows:
        for row in page:
            here = (row[0].page, row[0].row) if row else (0, -1)
            item = None if here in stops else _item(layout, row)
            if item and len(table.rows) < MOST_ROWS:
                table.rows.append(item)
            elif not table.rows or here in labelled or not _goes_on(table, row):
                if len(table.rows) > 1:
                    return table
                table = Table([])
                continue
            table.lines.add(here)
    return table if len(table.rows) > 1 else None


def _item(layout: Layout, row: Sequence[Cell]) -> dict[str, list[Cell]] | None:
    text = next((cell for cell in row if WORDS.search(cell.text)), None)
    if text is None or not 2 <= len(row) <= MOST_CELLS:
        return None
    parts = [piece for cell in row for piece in pieces(layout, cell)]
    numbers = [(piece, found[0].amount) for piece in parts[: 2 * MOST_CELLS] if (found := _whole(piece.text))]
    total, value = numbers[-1] if numbers else (text, Decimal(0))
    for place, (quantity, count) in enumerate(numbers[:-1]):
        for price, each in numbers[place + 1 : -1]:
            if value and abs(count * each - value) <= CENT and quantity.left > text.left:
                return {"description": [text], "quantity": [quantity], "price": [price], "total": [total]}
    return None


def _whole(text: str) -> list[AmountReading]:
    """The amount that a text is, if it is one."""
    found = find_amounts(text)
    return found if len(found) == 1 and not WORDS.search(text[: found[0].start] + text[found[0].end :]) else []


def _goes_on(table: Table, row: Sequence[Cell]) -> bool:
    """Adds a line of text to the description above it."""
    lines = table.rows[-1]["description"]
    if len(row) != 1 or len(lines) >= MOST_LINES or not row[0].over(lines[0]) or LINK.search(row[0].text):
        return False
    lines.append(row[0])
    return True
