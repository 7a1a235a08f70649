"""Pages as pictures."""

import io

import pytest
from PIL import Image

from rowmill_systems.parts.documents.document import Kind
from rowmill_systems.parts.documents.errors import CorruptFile, UnsupportedFile
from rowmill_systems.parts.documents.limits import DocumentLimits
from rowmill_systems.parts.documents.pages import render_page
from systems.tests.parts.documents.files import pdf, saved, scan, written


def test_a_page_of_a_pdf_is_a_picture_of_the_width_that_is_asked_for() -> None:
    file = pdf(written((72, 700, "One")), written((72, 700, "Two")))
    with Image.open(io.BytesIO(render_page(file, Kind.PDF, 2, width=500))) as picture:
        assert (picture.format, picture.size) == ("PNG", (500, 708))
        assert picture.convert("L").getextrema()[0] < 60  # type: ignore[operator]


def test_an_image_is_shown_upright_and_no_larger_than_it_is() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    file = saved(scan(["Text"]), "JPEG", exif=exif)
    with Image.open(io.BytesIO(render_page(file, Kind.IMAGE, 1, width=100))) as picture:
        assert picture.size == (100, 300)
    with Image.open(io.BytesIO(render_page(file, Kind.IMAGE, 1))) as picture:
        assert picture.size == (300, 900)


def test_a_width_beyond_all_measure_stays_within_the_pixels_of_a_page() -> None:
    file = pdf(written((72, 700, "One")))
    with Image.open(
        io.BytesIO(render_page(file, Kind.PDF, 1, width=10**9, limits=DocumentLimits(page_pixels=50_000)))
    ) as seen:
        assert seen.width * seen.height <= 51_000


def test_pages_that_are_not_there_and_kinds_without_pictures_are_unsupported() -> None:
    file = pdf(written((72, 700, "One")))
    for kind, number in ((Kind.PDF, 0), (Kind.PDF, 2), (Kind.DOCX, 1)):
        with pytest.raises(UnsupportedFile):
            render_page(file, kind, number)
    with pytest.raises(CorruptFile):
        render_page(b"no image", Kind.IMAGE, 1)
