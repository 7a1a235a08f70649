"""What the seam answers for a document: suggestions with evidence, and what no field was found for."""

from dataclasses import dataclass
from typing import Any

from rowmill_systems.parts.documents.document import Box, Document


@dataclass(frozen=True, slots=True)
class Evidence:
    """Where it says so: the page, the words as they stand there, and their places if the file has places."""

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
    """Something with a label, as `Delivery note: 4711`, for which the catalogue has no field."""

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
    """What the seam answers."""

    document: Document
    mapped: Mapped
