"""Limits of what a document may take. What exceeds them is refused."""

from dataclasses import dataclass

from rowmill_systems.parts.documents.errors import FileTooLarge

MB = 2**20


@dataclass(frozen=True, slots=True)
class DocumentLimits:
    """Limits of one document.

    The defaults accept a colour scan of A4 at 600 dpi and a report of a few hundred pages, and keep the reading process
    under 500 MB.
    """

    bytes: int = 50 * MB
    pages: int = 500
    """Pages, sheets, slides or frames; of a mail, together with its attachments."""
    page_pixels: int = 10_000_000
    """A page is rendered at 200 dpi, or at less if it would have more pixels."""
    image_pixels: int = 40_000_000
    """Pixels that an image, or a frame of it, may unpack to."""
    unpacked_bytes: int = 200 * MB
    """Bytes that all entries of a zip declare together. Office files are zips."""
    zip_entries: int = 5_000
    zip_ratio: int = 250
    """How many times its packed size an entry above one megabyte may have."""
    cells: int = 1_000_000
    """Cells of a workbook or a CSV, with the empty ones between others."""
    characters: int = 2_000_000
    """Of all text together."""
    attachments: int = 50
    mail_depth: int = 3
    """Mails in mails."""
    scanned_pages: int = 100
    """Pages that go through OCR, at some seconds each."""
    page_seconds: float = 60.0
    """Seconds until the next page begins. Enforced by `Reader`."""
    seconds: float = 900.0
    """Seconds for the whole document. Enforced by `Reader`."""
    memory: int = 440 * MB
    """Bytes of data of a fresh process that reads this document, with the program and the OCR engine.

    Enforced by `Reader`.
    """

    def check(self, what: str, found: int, allowed: int) -> None:
        """Raise FileTooLarge, which names what was too much, if more was found than allowed."""
        if found > allowed:
            raise FileTooLarge(f"{what}: {found}, and {allowed} are allowed")
