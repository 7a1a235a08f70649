"""An analysis as the database keeps it, for all files with the same bytes."""

from dataclasses import asdict, replace
from typing import Any

from rowmill_systems.intake.analysis import Analysis, Evidence, Mapped, Suggestion, Unmapped
from rowmill_systems.parts.documents import packing
from rowmill_systems.parts.documents.document import Box, Document
from rowmill_systems.parts.values import storable


def to_json(analysis: Analysis) -> dict[str, Any]:
    """Plain JSON. The places of single words are left out: a suggestion's evidence has its own."""
    return {
        "document": packing.to_json(without_words(analysis.document)),
        "suggestions": [asdict(suggestion) for suggestion in analysis.mapped.suggestions],
        "unmapped": [asdict(note) for note in analysis.mapped.unmapped],
    }


def from_json(found: dict[str, Any]) -> Analysis:
    suggestions = tuple(
        Suggestion(**{**given, "evidence": evidence(given["evidence"])}) for given in found["suggestions"]
    )
    unmapped = tuple(Unmapped(**{**given, "evidence": evidence(given["evidence"])}) for given in found["unmapped"])
    return Analysis(packing.from_json(found["document"]), Mapped(suggestions, unmapped))


def cleaned(analysis: Analysis) -> Analysis:
    """As it is kept, without NUL and halves of characters: whoever reads or maps may find them, and not every database
    takes them."""
    return from_json(storable(to_json(analysis)))


def evidence(given: dict[str, Any]) -> Evidence:
    return Evidence(given["page"], given["quote"], tuple(Box(**box) for box in given["boxes"]))


def without_words(document: Document) -> Document:
    pages = (replace(page, lines=tuple(replace(line, words=()) for line in page.lines)) for page in document.pages)
    return replace(document, pages=tuple(pages))
