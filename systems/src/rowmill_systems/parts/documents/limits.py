"""How much a document may be, unpack to and take. What is above it is refused: nobody fills a reader up."""

from dataclasses import dataclass

from rowmill_systems.parts.documents.errors import FileTooLarge

MB = 2**20


@dataclass(frozen=True, slots=True)
class DocumentLimits:
    """The defaults let a colour scan of A4 at 600 dpi and a report of a few hundred pages through, and keep the reading
    process under 500 MB."""

    bytes: int = 50 * MB
    pages: int = 500
    """Pages of a PDF, sheets, slides, frames; of a mail with its attachments together."""
    page_pixels: int = 10_000_000
    """A page is rendered at 200 dpi, or at less if it would have more pixels."""
    image_pixels: int = 40_000_000
    """What an image, or a frame of it, may unpack to."""
    unpacked_bytes: int = 200 * MB
    """What all entries of a zip (each office file is one) say that they unpack to."""
    zip_entries: int = 5_000
    zip_ratio: int = 250
    """How many times its packed size an entry of more than a megabyte may be."""
    cells: int = 1_000_000
    """Cells of a workbook or of a CSV, those empty ones included that lie between others."""
    characters: int = 2_000_000
    """Of all text together."""
    attachments: int = 50
    mail_depth: int = 3
    """Mails in mails."""
    scanned_pages: int = 100
    """Pages that go through OCR, at some seconds each."""
    page_seconds: float = 60.0
    """Of the clock on the wall, until the next page begins. `Reader` holds to it."""
    seconds: float = 900.0
    """For the whole document. `Reader` holds to it."""
    memory: int = 440 * MB
    """Of data, in a fresh process that reads this one document, with the program and the OCR engine. `Reader` holds to
    it."""

    def check(self, what: str, found: int, allowed: int) -> None:
        """FileTooLarge, which says what of it was too much."""
        if found > allowed:
            raise FileTooLarge(f"{what}: {found}, and {allowed} are allowed")
