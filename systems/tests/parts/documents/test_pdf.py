"""PDFs: lines and places as a reader sees them."""

import io
from itertools import pairwise

import pytest
from PIL import Image
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen.canvas import Canvas

from rowmill_systems.parts.documents.document import Box, Kind
from rowmill_systems.parts.documents.errors import CorruptFile, EncryptedFile, FileTooLarge
from rowmill_systems.parts.documents.limits import DocumentLimits
from rowmill_systems.parts.documents.pages import render_page
from systems.tests.parts.documents.files import Parrot, pdf, pictured, raw_pdf, read, scan, texts, written

PROSE = ("the quick brown fox jumps over", "a lazy dog that sleeps all day", "and nobody knows what it was for")


def test_rows_are_read_from_top_to_bottom_with_tabs_at_wide_gaps() -> None:
    table = written(
        (72, 680, "Paper"), (400, 700, "Total"), (72, 700, "Item"), (400, 680, "12.50"), (72, 750, "Hello world")
    )
    document = read(pdf(table))
    assert (document.kind, document.media_type) == (Kind.PDF, "application/pdf")
    assert texts(document) == [["Hello world", "Item\tTotal", "Paper\t12.50"]]


def test_words_of_a_line_have_places_in_parts_of_the_page() -> None:
    """F11."""
    [line] = read(pdf(written((72, 700, "Hello world")))).pages[0].lines
    hello, world = line.words
    assert [word.text for word in line.words] == ["Hello", "world"]
    assert hello.box.left == pytest.approx(72 / 595, abs=0.005)
    assert hello.box.top < (842 - 700) / 842 < hello.box.bottom
    assert hello.box.right < world.box.left


def ink(page: Image.Image, box: Box) -> float:
    """How much of a place is dark."""
    width, height = page.size
    place = (box.left * width, box.top * height, box.right * width, box.bottom * height)
    grey = page.convert("L").crop(tuple(round(side) for side in place))  # type: ignore[arg-type]
    return sum(grey.histogram()[:128]) / (grey.width * grey.height)


@pytest.mark.parametrize("turn", [0, 90, 180, 270])
def test_turned_pages_are_read_as_they_are_shown(turn: int) -> None:
    """Their text runs as the file says, and the boxes lie on the words of the page as a viewer shows it."""

    def draw(canvas: Canvas) -> None:
        canvas.setPageRotation(turn)
        canvas.drawString(150, 400, "First words here")
        canvas.drawString(150, 380, "Second line")

    file = pdf(draw, size=(595, 595))
    [page] = read(file).pages
    assert [line.text for line in page.lines] == ["First words here", "Second line"]
    shown = Image.open(io.BytesIO(render_page(file, Kind.PDF, 1)))
    for line in page.lines:
        for word in line.words:
            assert ink(shown, word.box) > 0.05


def test_text_that_runs_upwards_is_a_line_of_its_own() -> None:
    def draw(canvas: Canvas) -> None:
        canvas.drawString(72, 700, "Level text of the page")
        canvas.translate(300, 300)
        canvas.rotate(90)
        canvas.drawString(0, 0, "Rises up here")

    assert texts(read(pdf(draw))) == [["Level text of the page", "Rises up here"]]


def test_running_text_in_columns_is_read_column_by_column() -> None:
    left = [(60, 700 - 14 * n, f"left {n} {PROSE[n % 3]}") for n in range(8)]
    right = [(320, 700 - 14 * n, f"right {n} {PROSE[n % 3]}") for n in range(8)]
    title = (60, 740, "A title that goes over both of the columns of this page, and is not part of one")
    mixed = [line for pair in zip(left, right, strict=True) for line in pair]
    [lines] = texts(read(pdf(written(title, *mixed))))
    assert [line.split(" ")[:2] for line in lines[1:]] == [["left", str(n)] for n in range(8)] + [
        ["right", str(n)] for n in range(8)
    ]
    assert lines[0] == title[2]


def test_a_table_is_read_row_by_row_however_long_it_is() -> None:
    rows = [(60, 700 - 14 * n, f"Article number {n}") for n in range(20)]
    prices = [(320, 700 - 14 * n, f"{n}.50 EUR") for n in range(20)]
    [lines] = texts(read(pdf(written(*rows, *prices))))
    assert lines == [f"Article number {n}\t{n}.50 EUR" for n in range(20)]


def test_what_is_filled_in_to_a_form_is_text() -> None:
    def draw(canvas: Canvas) -> None:
        canvas.drawString(72, 700, "Name:")
        canvas.acroForm.textfield(name="name", value="Ada Lovelace", x=150, y=692, width=200, height=20)

    [page] = read(pdf(draw)).pages
    [line] = page.lines
    assert line.text.split() == ["Name:", "Ada", "Lovelace"]
    assert all(one.box.right <= other.box.left for one, other in pairwise(line.words))


def test_text_outside_of_the_page_is_not_there() -> None:
    assert texts(read(pdf(written((72, 700, "Seen here"), (72, 2000, "Not seen"))))) == [["Seen here"]]


def test_pages_without_text_go_through_ocr_and_others_do_not() -> None:
    """Also one with no more than a number on its picture."""
    image, parrot = scan(["Scan"]), Parrot()

    def numbered(canvas: Canvas) -> None:
        pictured(image)(canvas)
        canvas.drawString(300, 20, "3")

    file = pdf(written((72, 700, "A page of text")), pictured(image), numbered)
    document = read(file, ocr=parrot)
    assert [page.scanned for page in document.pages] == [False, True, True]
    assert texts(document)[1] == ["an image of 1653 by 2339"]
    assert {image.mode for image in parrot.seen} == {"RGB"}
    assert document.facts["ocr"] == "parrot"
    assert texts(read(file)) == [["A page of text"], [], ["3"]]


def test_progress_is_told_page_by_page() -> None:
    told: list[tuple[int, int]] = []
    read(pdf(*[written((72, 700, "Some text here"))] * 3), progress=lambda page, of: told.append((page, of)))
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_facts_of_a_pdf() -> None:
    def draw(canvas: Canvas) -> None:
        canvas.setTitle("Report")
        canvas.setAuthor("Ann")

    assert read(pdf(draw)).facts == {"title": "Report", "author": "Ann", "created": "2000-01-01", "pages": 1}


def test_a_pdf_with_a_password_is_encrypted_and_one_with_rights_only_is_read() -> None:
    """F5."""
    draw = written((72, 700, "Hello world"))
    with pytest.raises(EncryptedFile):
        read(pdf(draw, encrypt=StandardEncryption("secret", ownerPassword="owner", strength=128)))
    assert texts(read(pdf(draw, encrypt=StandardEncryption("", ownerPassword="owner", strength=128)))) == [
        ["Hello world"]
    ]


@pytest.mark.parametrize("file", [b"%PDF-1.7\nnothing", b"%PDF-", raw_pdf([b"<</Type/Catalog>>"])])
def test_a_broken_pdf_is_corrupt(file: bytes) -> None:
    """F5."""
    with pytest.raises(CorruptFile):
        read(file)


def test_more_scanned_pages_than_allowed_are_too_large() -> None:
    file = pdf(*[pictured(scan(["Scan"]))] * 3)
    assert len(read(file, ocr=Parrot(), limits=DocumentLimits(scanned_pages=3)).pages) == 3
    with pytest.raises(FileTooLarge, match="scanned pages"):
        read(file, ocr=Parrot(), limits=DocumentLimits(scanned_pages=2))


def test_a_pdf_of_more_pages_than_allowed_is_too_large() -> None:
    file = pdf(*[written((72, 700, "Some text here"))] * 3)
    assert len(read(file, limits=DocumentLimits(pages=3)).pages) == 3
    with pytest.raises(FileTooLarge, match="pages: 3, and 2 are allowed"):
        read(file, limits=DocumentLimits(pages=2))
