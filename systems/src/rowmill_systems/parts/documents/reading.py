"""What is shared by all that read one document."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from PIL import Image

from rowmill_systems.parts.documents.document import Line, Page
from rowmill_systems.parts.documents.limits import DocumentLimits
from rowmill_systems.parts.documents.ocr.engine import Ocr

FACT = 500
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
Facts = dict[str, str | int | float]


@dataclass(frozen=True, slots=True)
class Contents:
    """What a format answers."""

    pages: tuple[Page, ...]
    facts: Facts = field(default_factory=dict)


@dataclass(slots=True)
class ReadingState:
    """One document being read: what it may take, what of that it has taken, and who is told how far it is."""

    limits: DocumentLimits
    ocr: Ocr | None = None
    progress: Callable[[int, int], None] = lambda page, of_pages: None
    inner: "Callable[[bytes, str, str, ReadingState], Contents] | None" = None
    """Reads a file inside of this one, of that name and media type."""
    depth: int = 0
    """How many mails this is inside of."""
    characters: int = 0
    cells: int = 0
    pages: int = 0
    scanned: int = 0

    def recognise(self, image: Image.Image) -> tuple[Line, ...]:
        """What OCR reads; nothing without it."""
        if self.ocr is None:
            return ()
        self.scanned += 1
        self.limits.check("scanned pages", self.scanned, self.limits.scanned_pages)
        return self.ocr.read(image)

    def page(self, number: int, lines: Iterable[Line], *, scanned: bool = False, title: str = "") -> Page:
        """A page of these lines. Blank lines go; text and pages are counted while they come."""
        self.pages += 1
        self.limits.check("pages", self.pages, self.limits.pages)
        kept = []
        for line in lines:
            text = without_controls(line.text)
            if text.strip():
                self.characters += len(text)
                self.limits.check("characters", self.characters, self.limits.characters)
                kept.append(line if text == line.text else Line(text))
        return Page(number, tuple(kept), scanned=scanned, title=without_controls(title))

    def count_cells(self, number: int) -> None:
        self.cells += number
        self.limits.check("cells", self.cells, self.limits.cells)


def without_controls(text: str) -> str:
    """Remove control characters and lone surrogates: databases refuse them, and nobody sees them."""
    return CONTROLS.sub("", text)


def plain_lines(texts: Iterable[str]) -> Iterable[Line]:
    """Lines without places, of texts that may have line breaks of their own."""
    return (Line(part.rstrip()) for text in texts for part in text.splitlines())


def row_text(cells: Iterable[str]) -> str:
    """A row of a table: its cells between tabs, each on one line."""
    return "\t".join(" ".join(cell.split()) for cell in cells).rstrip("\t")


def known(facts: dict[str, str | int | float | None]) -> Facts:
    """Only those facts which are known, and not more of a text than anybody reads."""
    cut = {name: without_controls(value)[:FACT] if isinstance(value, str) else value for name, value in facts.items()}
    return {name: value for name, value in cut.items() if value not in (None, "")}
