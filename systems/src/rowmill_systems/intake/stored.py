"""Convert an analysis to JSON for the database, and back."""

from dataclasses import asdict, replace
from typing import Any

from rowmill_systems.intake.analysis import Analysis, Evidence, Mapped, Suggestion, Unmapped
from rowmill_systems.parts.documents import packing
from rowmill_systems.parts.documents.document import Box, Document
from rowmill_systems.parts.values import storable


def to_json(analysis: Analysis) -> dict[str, Any]:
    """Return plain JSON, without the boxes of single words: the evidence of suggestions has its own."""
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
    """Return the analysis as it is stored: without characters that not every database stores."""
    return from_json(storable(to_json(analysis)))


def evidence(given: dict[str, Any]) -> Evidence:
    return Evidence(given["page"], given["quote"], tuple(Box(**box) for box in given["boxes"]))


def without_words(document: Document) -> Document:
    pages = (replace(page, lines=tuple(replace(line, words=()) for line in page.lines)) for page in document.pages)
    return replace(document, pages=tuple(pages))
