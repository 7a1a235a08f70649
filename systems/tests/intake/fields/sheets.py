"""Documents for tests, from lines of text."""

from typing import Any

from rowmill_systems.intake.analysis import Mapped
from rowmill_systems.intake.fields.loading import load_catalogue
from rowmill_systems.intake.fields.rules import map_by_rules
from rowmill_systems.parts.documents.document import Box, Document, Kind, Line, Page, Word


def document(text: str, *, language: str | None = "en", kind: Kind = Kind.TEXT, scanned: bool = False) -> Document:
    """A page of these lines, without places."""
    lines = tuple(Line(line) for line in text.strip("\n").split("\n"))
    return Document(kind, "text/plain", (Page(1, lines, scanned=scanned),), language)


def placed(*lines: list[tuple[float, float, str]], language: str = "en", scanned: bool = False) -> Document:
    """A page of lines; each is words as (left, top, text), with tabs between. A letter is a hundredth wide."""
    pages = []
    for words in lines:
        boxed = [Word(text, Box(left, top, left + len(text) / 100, top + 0.015)) for left, top, text in words]
        pages.append(Line("\t".join(word.text for word in boxed), tuple(boxed)))
    return Document(Kind.PDF, "application/pdf", (Page(1, tuple(pages), scanned=scanned),), language)


def mapped(text: str | Document, doc_type: str | None = "invoice", **options: Any) -> Mapped:
    given = document(text, **options) if isinstance(text, str) else text
    return map_by_rules(given, doc_type=doc_type, catalogue=load_catalogue())


def values(text: str | Document, doc_type: str | None = "invoice", **options: Any) -> dict[str, Any]:
    """The suggestions by field; of fields with many values, the surest."""
    found: dict[str, Any] = {}
    for suggestion in mapped(text, doc_type, **options).suggestions:
        found.setdefault(suggestion.field, suggestion.value)
    return found


def sureness(text: str | Document, field: str, doc_type: str | None = "invoice", **options: Any) -> float:
    return next(each.confidence for each in mapped(text, doc_type, **options).suggestions if each.field == field)
