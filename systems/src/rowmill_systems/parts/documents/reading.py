"""What all formats share while one document is read."""

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
    """What a format returns."""

    pages: tuple[Page, ...]
    facts: Facts = field(default_factory=dict)


@dataclass(slots=True)
class ReadingState:
    """The state of reading one document: its limits, what it has used of them, and where progress is reported."""

    limits: DocumentLimits
    ocr: Ocr | None = None
    progress: Callable[[int, int], None] = lambda page, of_pages: None
    inner: "Callable[[bytes, str, str, ReadingState], Contents] | None" = None
    """Reads a file inside this one, by its bytes, name and media type."""
    depth: int = 0
    """How many mails this file is nested in."""
    characters: int = 0
    cells: int = 0
    pages: int = 0
    scanned: int = 0

    def recognise(self, image: Image.Image) -> tuple[Line, ...]:
        """Return the lines that OCR finds; none without an engine."""
        if self.ocr is None:
            return ()
        self.scanned += 1
        self.limits.check("scanned pages", self.scanned, self.limits.scanned_pages)
        return self.ocr.read(image)

    def page(self, number: int, lines: Iterable[Line], *, scanned: bool = False, title: str = "") -> Page:
        """Make a page of these lines, without blank ones. Counts text and pages against the limits."""
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
    """Split texts into lines without places."""
    return (Line(part.rstrip()) for text in texts for part in text.splitlines())


def row_text(cells: Iterable[str]) -> str:
    """Join the cells of a table row by tabs, each cell on one line."""
    return "\t".join(" ".join(cell.split()) for cell in cells).rstrip("\t")


def known(facts: dict[str, str | int | float | None]) -> Facts:
    """Return the facts that are known, with long texts cut."""
    cut = {name: without_controls(value)[:FACT] if isinstance(value, str) else value for name, value in facts.items()}
    return {name: value for name, value in cut.items() if value not in (None, "")}
