"""A small invoice with places, and a catalogue for it."""

from collections.abc import Iterable
from typing import Any

from rowmill_systems.intake.fields.catalogue import Catalogue, Field, FieldType
from rowmill_systems.parts.documents.document import Box, Document, Kind, Line, Page, Word

FIRST = ("Heron Maritime  Ltd.", "Invoice\tRE-2026-0815", "Date: 31 March 2026", "IBAN DE89 3704 0044 0532 0130 00")
SECOND = (
    "Item\tQty\tTotal",
    "Rope\t2\t190.00",
    "Sail\t1\t1.000,00",
    "Total due 1.190,00 EUR",
    "Delivery note: 4711",
    "mail@heron.example",
)

CATALOGUE = Catalogue.of(
    [
        Field("number", "Invoice number", FieldType.ID, synonyms=("Rechnungsnummer",)),
        Field("issued", "Date", FieldType.DATE),
        Field("total", "Total", FieldType.AMOUNT),
        Field("seller", "Seller", FieldType.PARTY),
        Field("account", "IBAN", FieldType.ID, scheme="iban"),
        Field("items", "Items", FieldType.TABLE, scheme="item,quantity,total"),
        Field("mail", "E-mail", FieldType.EMAIL, many=True),
        Field("rate", "Rate", FieldType.NUMBER),
    ]
)


def line(text: str, top: float) -> Line:
    """With each word in a box of its own."""
    words = text.split()
    return Line(text, tuple(Word(word, Box(n / 20, top, (n + 1) / 20, top + 0.05)) for n, word in enumerate(words)))


def page(number: int, lines: Iterable[str]) -> Page:
    return Page(number, tuple(line(text, place / 10) for place, text in enumerate(lines)))


def document(*pages: Iterable[str]) -> Document:
    return Document(Kind.PDF, "application/pdf", tuple(page(number, lines) for number, lines in enumerate(pages, 1)))


PAPER = document(FIRST, SECOND)


def found(field: str, value: str, page: int, quote: str, confidence: Any = 0.95, rows: Any = ()) -> dict[str, Any]:
    """As a model says it."""
    return {"field": field, "value": value, "rows": rows, "page": page, "quote": quote, "confidence": confidence}


RIGHT = [
    found("number", "RE-2026-0815", 1, "Invoice\tRE-2026-0815"),
    found("issued", "2026-03-31", 1, "Date: 31 March 2026"),
    found("total", "1190.00 EUR", 2, "Total due 1.190,00 EUR"),
    found("seller", "Heron Maritime Ltd.", 1, "Heron Maritime Ltd."),
]
DREAMT = found("total", "5000.00 EUR", 2, "Grand total 5.000,00 EUR")
NOTE = {"label": "Delivery note", "value": "4711", "page": 2, "quote": "Delivery note: 4711"}
