"""What is read from a file."""

from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    """The kind of a file, by its bytes."""

    PDF = "pdf"
    DOCX = "docx"
    XLSX = "xlsx"
    PPTX = "pptx"
    HTML = "html"
    CSV = "csv"
    TEXT = "text"
    EMAIL = "email"
    IMAGE = "image"


@dataclass(frozen=True, slots=True)
class Box:
    """A place on a page, as fractions of its width and height from the top left corner."""

    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True, slots=True)
class Word:
    """A word and its place."""

    text: str
    box: Box


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text.

    Wide gaps, as between the columns of a table, are tabs. `words` are its words in order; formats without places have
    none.
    """

    text: str
    words: tuple[Word, ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """A page, slide, sheet or whole text, numbered from 1. Lines are in order from top to bottom."""

    number: int
    lines: tuple[Line, ...]
    scanned: bool = False
    """Its text comes from OCR."""
    title: str = ""
    """The name of the sheet, or of the attachment of a mail."""

    @property
    def text(self) -> str:
        return "\n".join(line.text for line in self.lines)


@dataclass(frozen=True, slots=True)
class Document:
    """A file that was read."""

    kind: Kind
    media_type: str
    """By its bytes, not by what the uploader said."""
    pages: tuple[Page, ...]
    language: str | None = None
    """ISO 639-1; None where there is too little text to tell."""
    facts: dict[str, str | int | float] = field(default_factory=dict)
    """Basic facts: title, author, created, width, height, ocr (the engine), sheets…"""

    @property
    def text(self) -> str:
        return "\f".join(page.text for page in self.pages)
