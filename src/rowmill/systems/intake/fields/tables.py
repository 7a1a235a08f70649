"""Tables of line items: a header of known columns, and the rows under it until the totals."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rowmill.systems.intake.fields.amounts import find_amounts
from rowmill.systems.intake.fields.labels import key_of
from rowmill.systems.intake.fields.layout import Cell, Layout, Span
from rowmill.systems.intake.fields.parties import tidy

MOST_ROWS = 500
NAMES: Mapping[str, tuple[str, ...]] = {
    "position": ("Pos", "Pos.", "No", "#", "Item no", "Line", "Position", "N°", "Nr", "Num", "Art.", "序号", "项目编号", "Lfd. Nr", "Riga", "Línea", "Ligne"),
    "description": (
        "Description", "Item", "Items", "Article", "Product", "Goods", "Service", "Details", "Particulars", "Item description", "Description of goods", "Bezeichnung",
        "Beschreibung", "Artikel", "Leistung", "Produkt", "Artikelbezeichnung", "Désignation", "Libellé", "Produit", "Prestation", "Descripción", "Concepto", "Artículo", "Producto",
        "Descrizione", "Articolo", "Prodotto", "品名", "名称", "项目", "商品名称", "货物名称", "描述", "Text", "Ware", "Détail", "Detalle", "Oggetto",
    ),
    "quantity": (
        "Quantity", "Qty", "Qty.", "Units", "Hours", "Count", "Pcs", "Menge", "Anzahl", "Stück", "Stk", "Stunden", "Quantité", "Qté", "Qte", "Nombre", "Cantidad", "Cant.", "Uds.", "Unidades",
        "Quantità", "Q.tà", "Qtà", "Q.ta", "数量",
    ),
    "unit": ("Unit", "UOM", "U/M", "Einheit", "ME", "Unité", "Unidad", "Unità", "U.M.", "单位"),
    "price": (
        "Price", "Unit price", "Rate", "Each", "Unit cost", "Price per unit", "Price/unit", "Einzelpreis", "Stückpreis", "E-Preis", "EP", "Preis", "Preis/Einheit", "Prix unitaire", "P.U.", "PU HT", "Prix unit. HT", "Prix", "P.U. HT",
        "Precio", "Precio unitario", "Precio unit.", "P. unit.", "Prezzo", "Prezzo unitario", "Prezzo unit.", "单价", "Prix unit.",
    ),
    "total": (
        "Total", "Amount", "Line total", "Net amount", "Value", "Sum", "Total price", "Gesamt", "Gesamtpreis", "Betrag", "Summe", "G-Preis", "GP", "Gesamtbetrag", "Montant", "Montant HT", "Total HT", "Prix total", "Importe", "Precio total", "Subtotal",
        "Importo", "Totale", "Prezzo totale", "金额", "总价", "合计", "小计",
    ),
    "tax": ("VAT", "VAT %", "Tax", "MwSt", "USt", "MwSt.", "TVA", "IVA", "税率", "VAT rate", "Steuer", "税额", "Taux"),
    "number": ("SKU", "Article no", "Item code", "Code", "Part no", "Art.-Nr.", "Artikelnummer", "Artikel-Nr", "Réf.", "Référence", "Referencia", "Ref.", "Codice", "货号", "型号", "EAN", "GTIN", "Product code", "规格"),
}  # fmt: skip
COLUMNS = {key_of(name): column for column, names in reversed(NAMES.items()) for name in names}
NUMERIC = frozenset({"quantity", "price", "total"})
CURRENCY_ASIDE = re.compile(r"\s*(?:[(\[].{0,20}[)\]]|in (?:EUR|USD|GBP|CHF|€)|EUR|USD|GBP|CHF|€|\$|£)\s*\.?$")


@dataclass(slots=True)
class Table:
    """What was found: the columns by their header cells, and the rows as cells by column."""

    header: list[tuple[str, Cell]]
    rows: list[dict[str, list[Cell]]] = field(default_factory=list)
    lines: set[tuple[int, int]] = field(default_factory=set)
    """Page and line of all that belongs to it."""

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


def find_table(layout: Layout, stops: set[tuple[int, int]]) -> Table | None:
    """The table of line items. `stops` are the lines that name a total: no row stands there.

    A header that comes again on the next page goes on with the same table."""
    table: Table | None = None
    for page in layout.rows:
        place = 0
        while place < len(page):
            header = header_of(page[place])
            if header and (table is None or {name for name, _ in header} == {name for name, _ in table.header}):
                table = table or Table(header)
                place = _take_rows(layout, table, header, page, place, stops)
            else:
                place += 1
    return table if table and table.rows else None


def header_of(row: Sequence[Cell]) -> list[tuple[str, Cell]]:
    """The columns of a line, if it is a header: a description and a number of something, none twice."""
    found: dict[str, Cell] = {}
    for cell in row[:14]:
        name = column_of(cell.text)
        if name is None and not _wordy(cell.text):
            return []
        if name and name not in found:
            found[name] = cell
    names = set(found)
    if len(names) < 2 or 2 * len(names) < len(row) or not names & NUMERIC or "description" not in names:
        return []
    return list(found.items())


def column_of(text: str) -> str | None:
    bare = CURRENCY_ASIDE.sub("", text.strip()).strip(" .:%")
    return COLUMNS.get(key_of(bare)) if len(bare) < 30 else None


def _wordy(text: str) -> bool:
    return len(text) < 30 and not any(sign.isdigit() for sign in text)


def _take_rows(
    layout: Layout, table: Table, header: list[tuple[str, Cell]], page: Sequence[Sequence[Cell]], at: int, stops: set[tuple[int, int]]
) -> int:  # fmt: skip
    """Adds the rows under the header; answers the line after the last."""
    row = page[at]
    table.lines.add((row[0].page, row[0].line))
    last, place = row[0], at + 1
    while place < len(page) and len(table.rows) < MOST_ROWS:
        cells = page[place]
        place += 1
        if not cells:
            continue
        if (cells[0].page, cells[0].line) in stops or header_of(cells) or (last.placed and cells[0].top - last.bottom > 0.08):
            return place - 1
        if not _take(table, header, row, cells):
            return place - 1
        table.lines.add((cells[0].page, cells[0].line))
        last = cells[0]
    return place


def _take(table: Table, header: list[tuple[str, Cell]], head: Sequence[Cell], cells: Sequence[Cell]) -> bool:
    """Puts a line into the table; False if it is none of its lines."""
    placed: dict[str, list[Cell]] = {}
    for cell in cells:
        column = _column(header, head, cell)
        if column:
            placed.setdefault(column, []).append(cell)
    numbers = [name for name in NUMERIC if name in placed and _is_number(placed[name][0].text)]
    wanted = {name for name, _ in header} & NUMERIC
    if numbers and (len(numbers) > 1 or len(wanted) == 1) and "description" in placed:
        table.rows.append(placed)
        return True
    only = set(placed) <= {"description"} and bool(placed)
    if only and table.rows and len(table.rows[-1].get("description", ())) < 5 and len(cells) == 1:
        table.rows[-1].setdefault("description", []).extend(placed["description"])
        return True
    return False


def _is_number(text: str) -> bool:
    readings = find_amounts(text)
    return len(readings) >= 1 and readings[0].start <= 1


def _column(header: list[tuple[str, Cell]], head: Sequence[Cell], cell: Cell) -> str | None:
    """The column that shares most of its width with the cell; the nearest if none does."""
    names = {(other.line, other.start): name for name, other in header}

    def overlap(other: Cell) -> float:
        return min(other.right, cell.right) - max(other.left, cell.left)

    best = max(head, key=overlap)
    if overlap(best) <= 0 and min(abs(best.left - cell.left), abs(best.right - cell.right)) > (0.2 if cell.placed else 12):
        return None
    return names.get((best.line, best.start))


