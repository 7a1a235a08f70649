"""What is read from a file: nouns only."""

from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    """What a file is, by its bytes."""

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
    """A place on a page, in parts of its width and height, from the top left corner: all between 0 and 1."""

    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True, slots=True)
class Word:
    """Text that stands together, without spaces inside, and where."""

    text: str
    box: Box


@dataclass(frozen=True, slots=True)
class Line:
    """A line as a reader sees it. Wide gaps, as between the columns of a table, are tabs in its text. `words` are those
    of the text, in order; files without places have none."""

    text: str
    words: tuple[Word, ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """A page, a slide, a sheet or a whole text, from number 1. Lines go from top to bottom."""

    number: int
    lines: tuple[Line, ...]
    scanned: bool = False
    """Its text comes from OCR."""
    title: str = ""
    """The name of the sheet, the part of the mail."""

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
