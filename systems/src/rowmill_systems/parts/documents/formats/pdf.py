"""PDF: the text layer with places, values of form fields, and OCR for pages without text."""

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pypdfium2  # type: ignore[import-untyped]
import pypdfium2.raw as pdfium  # type: ignore[import-untyped]
from PIL import Image

from rowmill_systems.parts.documents.document import Page
from rowmill_systems.parts.documents.errors import CorruptFile, EncryptedFile
from rowmill_systems.parts.documents.formats.pdf_words import words_of
from rowmill_systems.parts.documents.layout import lines_of
from rowmill_systems.parts.documents.limits import DocumentLimits
from rowmill_systems.parts.documents.reading import Contents, Facts, ReadingState, known

DPI = 200
MEANINGFUL = 8
"""Letters and digits that a page needs for its text layer to count: scanners print page numbers on images."""
DATE = re.compile(r"D?:?(\d{4})(\d\d)?(\d\d)?")


@contextmanager
def opened(file_bytes: bytes) -> Iterator[pypdfium2.PdfDocument]:
    """Open a PDF with an empty password, which suffices if only the owner's password is set.

    Values of form fields are shown.
    """
    try:
        document = pypdfium2.PdfDocument(file_bytes)
    except pypdfium2.PdfiumError as error:
        if error.err_code in (pdfium.FPDF_ERR_PASSWORD, pdfium.FPDF_ERR_SECURITY):
            raise EncryptedFile("a PDF with a password") from error
        raise CorruptFile("a broken PDF") from error
    with closing(document):
        document.init_forms()
        yield document


def render(document: pypdfium2.PdfDocument, index: int, *, scale: float, limits: DocumentLimits) -> Image.Image:
    """Render a page in RGB, upright as a viewer shows it, with at most so many pixels."""
    with closing(document[index]) as page:
        width, height = page.get_size()
        most = (limits.page_pixels / max(width * height, 1e-6)) ** 0.5
        # A page of five kilometres by a millimetre: no side is longer than the root of all pixels times four.
        longest = 4 * limits.page_pixels**0.5 / max(width, height, 1e-6)
        with closing(page.render(scale=min(scale, most, longest), rev_byteorder=True)) as bitmap:
            image: Image.Image = bitmap.to_pil().convert("RGB")  # a copy, of what the bitmap gives back when it closes
            return image.copy() if image.readonly else image


def read(file_bytes: bytes, reading: ReadingState) -> Contents:
    with opened(file_bytes) as document:
        number = len(document)
        if not number:
            raise CorruptFile("a PDF without pages")
        reading.limits.check("pages", reading.pages + number, reading.limits.pages)
        pages = []
        for index in range(number):
            reading.progress(index + 1, number)
            pages.append(_read_page(document, index, reading))
        facts = _facts(document)
    if reading.ocr and any(page.scanned for page in pages):
        facts["ocr"] = reading.ocr.name
    return Contents(tuple(pages), facts)


def _read_page(document: pypdfium2.PdfDocument, index: int, reading: ReadingState) -> Page:
    try:
        with closing(document[index]) as page:
            if pdfium.FPDFPage_GetAnnotCount(page):
                # What is filled in to forms or noted on it becomes text of the page, once that is loaded again.
                pdfium.FPDFPage_Flatten(page, pdfium.FLAT_NORMALDISPLAY)
        with closing(document[index]) as page:
            lines = [line for spots in words_of(page, reading.limits) for line in lines_of(spots)]
        found = sum(character.isalnum() for line in lines for character in line.text)
        if found >= MEANINGFUL or reading.ocr is None:
            return reading.page(index + 1, lines)
        image = render(document, index, scale=DPI / 72, limits=reading.limits)
    except pypdfium2.PdfiumError as error:
        raise CorruptFile(f"page {index + 1} of the PDF is broken") from error
    return reading.page(index + 1, reading.recognise(image) or lines, scanned=True)


def _facts(document: pypdfium2.PdfDocument) -> Facts:
    said = document.get_metadata_dict(skip_empty=True)
    date = DATE.match(said.get("CreationDate", ""))
    return known(
        {
            "title": said.get("Title", ""),
            "author": said.get("Author", ""),
            "created": "-".join(part for part in date.groups() if part) if date else None,
            "pages": len(document),
        }
    )
