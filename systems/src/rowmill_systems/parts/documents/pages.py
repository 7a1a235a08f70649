"""Render a page as an image."""

import io

from PIL import Image

from rowmill_systems.parts.documents.document import Kind
from rowmill_systems.parts.documents.errors import UnsupportedFile
from rowmill_systems.parts.documents.formats import image as images
from rowmill_systems.parts.documents.formats import pdf
from rowmill_systems.parts.documents.limits import DocumentLimits

WIDEST = 4_000


def render_page(
    file_bytes: bytes, kind: Kind, number: int, *, width: int = 1000, limits: DocumentLimits | None = None
) -> bytes:
    """Return a PNG of a page of a PDF or an image, upright and about this wide.

    The boxes of words lie on it. Raises UnsupportedFile for other kinds, and for pages that the file does not have.
    """
    limits, width = limits or DocumentLimits(), min(max(width, 16), WIDEST)
    match kind:
        case Kind.PDF:
            seen = _pdf_page(file_bytes, number - 1, width, limits)
        case Kind.IMAGE:
            seen = _frame(file_bytes, number - 1, width, limits)
        case _:
            raise UnsupportedFile("only pages of PDFs and images can be shown")
    png = io.BytesIO()
    seen.save(png, "PNG")
    return png.getvalue()


def _pdf_page(file_bytes: bytes, index: int, width: int, limits: DocumentLimits) -> Image.Image:
    with pdf.opened(file_bytes) as document:
        _must_exist(index, len(document))
        return pdf.render(document, index, scale=width / max(document.get_page_size(index)[0], 1e-3), limits=limits)


def _frame(file_bytes: bytes, index: int, width: int, limits: DocumentLimits) -> Image.Image:
    with images.opened(file_bytes) as image:
        _must_exist(index, images.frames_of(image))
        seen = images.upright(image, index, limits)
    seen.thumbnail((width, limits.page_pixels // width))
    return seen


def _must_exist(index: int, pages: int) -> None:
    if not 0 <= index < pages:
        raise UnsupportedFile("the file has no such page")
