"""Find net, tax and total without labels: two amounts that sum up to a third."""

from collections.abc import Iterator
from decimal import Decimal

from rowmill_systems.intake.fields.amounts import AmountReading, find_amounts, money
from rowmill_systems.intake.fields.candidates import FieldCandidate
from rowmill_systems.intake.fields.catalogue import Field, FieldType
from rowmill_systems.intake.fields.layout import Cell, Span
from rowmill_systems.intake.fields.readings import read
from rowmill_systems.intake.fields.view import View

CENT = Decimal("0.02")
LEAST_TAX, MOST_TAX = Decimal("0.01"), Decimal("0.3")
WINDOW = 4
MOST_SUMS = 400
SURE = 0.72


def sums(view: View) -> Iterator[FieldCandidate]:
    """Three amounts below each other of which the first two make the third, the second being a tax of the first."""
    wanted = {field.scheme: field for field in view.fields if field.type is FieldType.AMOUNT}
    rates = [field for field in view.fields if field.type is FieldType.NUMBER and field.scheme == "percent"]
    if not {"net", "tax", "total"} <= set(wanted):
        return
    amounts = _last_amounts(view)
    for place, (net, net_reading) in enumerate(amounts):
        for other in range(place + 1, min(place + WINDOW, len(amounts))):
            tax, tax_reading = amounts[other]
            if not LEAST_TAX * net_reading.amount <= tax_reading.amount <= MOST_TAX * net_reading.amount:
                continue
            for total, total_reading in amounts[other + 1 : other + WINDOW]:
                if abs(net_reading.amount + tax_reading.amount - total_reading.amount) <= CENT and tax_reading.amount:
                    yield _candidate(view, wanted["net"], net, net_reading)
                    yield _candidate(view, wanted["tax"], tax, tax_reading)
                    yield _candidate(view, wanted["total"], total, total_reading)
                    for rate in rates:
                        yield from _percents(view, rate, tax)


def _last_amounts(view: View) -> list[tuple[Cell, AmountReading]]:
    """The last amount of every row outside the table."""
    found = []
    for page in view.layout.rows:
        for row in page:
            if row and not (view.table and (row[0].page, row[0].row) in view.table.lines):
                readings = [reading for reading in find_amounts(row[-1].text) if reading.exact]
                if readings and readings[-1].amount > 0:
                    found.append((row[-1], readings[-1]))
    return found[:MOST_SUMS]


def _candidate(view: View, field: Field, cell: Cell, reading: AmountReading) -> FieldCandidate:
    span = Span(cell.page, cell.line, cell.start + reading.start, cell.start + reading.end)
    return FieldCandidate(field, money(reading, view.context.currency), SURE, (span,))


def _percents(view: View, field: Field, cell: Cell) -> Iterator[FieldCandidate]:
    for other in view.layout.rows[cell.page][cell.row]:
        for reading in read(field, other.text, view.context):
            span = Span(other.page, other.line, other.start + reading.start, other.start + reading.end)
            yield FieldCandidate(field, reading.value, SURE, (span,))
