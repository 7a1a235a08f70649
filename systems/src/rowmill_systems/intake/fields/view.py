"""A document as the rules see it: cells, labels, addresses, the table, and how to read its numbers."""

from dataclasses import dataclass
from functools import lru_cache

from rowmill_systems.intake.fields.addresses import Block, find_blocks
from rowmill_systems.intake.fields.amounts import main_currency
from rowmill_systems.intake.fields.catalogue import Catalogue, Field, FieldType
from rowmill_systems.intake.fields.dates import is_month_first
from rowmill_systems.intake.fields.labels import Hit, Labels
from rowmill_systems.intake.fields.layout import Cell, Layout
from rowmill_systems.intake.fields.products import table_by_products
from rowmill_systems.intake.fields.readings import Context
from rowmill_systems.intake.fields.tables import NUMERIC, Table, find_table
from rowmill_systems.parts.documents.document import Document, Kind

Place = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class View:
    layout: Layout
    doc_type: str | None
    fields: tuple[Field, ...]
    hits: dict[Place, list[Hit]]
    """Labels by the cell that they stand in; those of the table are not here."""
    table: Table | None
    blocks: list[Block]
    context: Context
    mail_rows: frozenset[int]
    """The rows of the first page that are the head of a mail: what is true of the mail need not be of the paper."""

    @classmethod
    def of(cls, document: Document, doc_type: str | None, catalogue: Catalogue) -> "View":
        layout, labels = Layout(document), labels_of(catalogue, doc_type)
        hits = {}
        for cell in layout.cells():
            if found := labels.hits(cell, scanned=document.pages[cell.page].scanned):
                hits[place_of(cell)] = found
        table = _table(layout, hits)
        if table:
            hits = {place: found for place, found in hits.items() if _row(found[0]) not in table.lines}
        lines = [layout.line_text(row[0]) for page in layout.rows for row in page if row]
        currency = main_currency(lines)
        context = Context(
            document.language, currency, is_month_first(lines, document.language, currency in (None, "USD"))
        )
        return cls(
            layout,
            doc_type,
            catalogue.for_type(doc_type),
            hits,
            table,
            find_blocks(layout),
            context,
            _mail_rows(document, layout),
        )

    def hits_in(self, cell: Cell) -> list[Hit]:
        return self.hits.get(place_of(cell), [])

    def is_word(self, cell: Cell) -> bool:
        """Return whether a cell may be a value although it looks like a label without a field, such as `Cash`."""
        return not any(hit.fields or hit.colon for hit in self.hits_in(cell)) and not self.layout.right_of(cell)

    def in_mail_head(self, cell: Cell) -> bool:
        return cell.page == 0 and cell.row in self.mail_rows

    def is_label(self, cell: Cell) -> bool:
        """Return whether a cell begins with a label, and so is not a value."""
        return any(hit.leading and not hit.qualified for hit in self.hits_in(cell))


@lru_cache(maxsize=32)
def labels_of(catalogue: Catalogue, doc_type: str | None) -> Labels:
    return Labels(catalogue, doc_type)


def place_of(cell: Cell) -> Place:
    return cell.page, cell.line, cell.start


MAIL_HEAD = ("from:", "to:", "cc:", "subject:", "date:", "reply-to:")


def _mail_rows(document: Document, layout: Layout) -> frozenset[int]:
    if document.kind is not Kind.EMAIL or not layout.rows:
        return frozenset()
    rows = layout.rows[0][: len(MAIL_HEAD)]
    return frozenset(number for number, row in enumerate(rows) if row and row[0].text.casefold().startswith(MAIL_HEAD))


def _row(hit: Hit) -> tuple[int, int]:
    return hit.cell.page, hit.cell.row


def _table(layout: Layout, hits: dict[Place, list[Hit]]) -> Table | None:
    """Find the table by its header; by its numbers if the header does not name them."""
    stops, labelled = _stops(hits), {_row(hit) for found in hits.values() for hit in found if hit.leading}
    table = find_table(layout, stops, labelled)
    if table and {name for name, _ in table.header} >= NUMERIC:
        return table
    return table_by_products(layout, stops, labelled) or table


def _stops(hits: dict[Place, list[Hit]]) -> set[tuple[int, int]]:
    """Rows that name an amount of the whole document, or something that no item does."""
    return {
        _row(hit)
        for found in hits.values()
        for hit in found
        if hit.leading
        and not hit.qualified
        and (not hit.fields or any(field.type is FieldType.AMOUNT for field in hit.fields))
    }
