"""What the analysis of a document returns: suggestions with evidence, and labelled values without a field."""

from dataclasses import dataclass
from typing import Any

from rowmill_systems.parts.documents.document import Box, Document


@dataclass(frozen=True, slots=True)
class Evidence:
    """Where a value was found: the page, the words as they stand there, and their boxes if the format has places."""

    page: int
    quote: str
    boxes: tuple[Box, ...] = ()


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A value for a field of the catalogue."""

    field: str
    value: Any
    """Plain JSON: "2026-03-31" of a date, {"amount": "1190.00", "currency": "EUR"} of an amount, text of ids, parties
    and addresses, a list of {column: text} of a table."""
    confidence: float
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Unmapped:
    """A labelled value without a field in the catalogue, such as `Delivery note: 4711`."""

    label: str
    value: str
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Mapped:
    """What a mapper found in a document."""

    suggestions: tuple[Suggestion, ...] = ()
    unmapped: tuple[Unmapped, ...] = ()


@dataclass(frozen=True, slots=True)
class Analysis:
    """What the analysis returns: the document, and what was found in it."""

    document: Document
    mapped: Mapped
