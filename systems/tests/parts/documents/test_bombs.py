"""Files that are made to fill up whoever reads them: each is refused, within its limits.

Those that only a parser's own memory or time can stop are in test_reader.
"""

import io
import struct
import zipfile
from typing import Any

import pytest

from rowmill_systems.parts.documents.errors import CorruptFile, FileTooLarge, UnsupportedFile
from rowmill_systems.parts.documents.limits import MB, DocumentLimits
from systems.tests.parts.documents.files import (  # fmt: skip
    Parrot,
    attach,
    mail,
    pdf_of_stream,
    raw_pdf,
    read,
    rezipped,
    slides,
    texts,
    word,
    workbook,
)

BODY = "word/document.xml"


def a_word(document: Any) -> None:
    document.add_paragraph("Hello")


def test_a_zip_that_says_it_unpacks_to_too_much() -> None:
    bomb = rezipped(word(a_word), {"word/media/a.bin": bytes(5 * MB)})
    with pytest.raises(FileTooLarge, match="ratio of the zip"):
        read(bomb)
    with pytest.raises(FileTooLarge, match="unpacked bytes of the zip"):
        read(bomb, limits=DocumentLimits(unpacked_bytes=4 * MB))


def test_a_zip_of_too_many_entries() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for number in range(101):
            archive.writestr(f"{number}", b"")
    with pytest.raises(FileTooLarge, match="entries of the zip"):
        read(file.getvalue(), limits=DocumentLimits(zip_entries=100))


def test_entries_that_lie_over_each_other_count_each() -> None:
    """One packed megabyte, and a directory that names it thirty times."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", bytes(range(256)) * 4096)
        archive.filelist *= 30
    with pytest.raises(FileTooLarge, match="unpacked bytes"):
        read(file.getvalue(), limits=DocumentLimits(unpacked_bytes=20 * MB, zip_ratio=10_000))


def test_a_directory_that_says_too_little_makes_a_broken_file_and_not_a_big_one() -> None:
    bomb = bytearray(rezipped(word(a_word), {BODY: b"<w>" + b" " * 5 * MB + b"</w>"}))
    size = struct.pack("<I", 5 * MB + 7)
    assert bomb.count(size) == 2
    lying = bytes(bomb.replace(size, struct.pack("<I", 100)))
    with pytest.raises(CorruptFile):
        read(lying)


def test_zips_in_zips_are_not_opened() -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb", bytes(100 * MB))
    outer = io.BytesIO()
    with zipfile.ZipFile(outer, "w") as archive:
        archive.writestr("inner.zip", inner.getvalue())
    with pytest.raises(UnsupportedFile):
        read(outer.getvalue())
    assert texts(read(rezipped(word(a_word), {"word/embeddings/inner.zip": inner.getvalue()}))) == [["Hello"]]


def test_a_zip_that_begins_like_one_and_is_none() -> None:
    with pytest.raises(CorruptFile):
        read(b"PK\x03\x04" + bytes(1000))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize(
    ("file", "part"),
    [
        (word(a_word), BODY),
        (word(a_word), "docProps/core.xml"),
        (workbook(lambda book: book.active.append(["a"])), "xl/worksheets/sheet1.xml"),
        (slides(lambda show: None), "ppt/presentation.xml"),
    ],
)
def test_entities_in_office_files(file: bytes, part: str, encoding: str) -> None:
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    bomb = f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY l0 "ha">{laughs}]><x>&l9;</x>'
    with pytest.raises(CorruptFile, match="document type"):
        read(rezipped(file, {part: bomb.encode(encoding)}))


def sheet(rows: str, dimension: str = "A1") -> bytes:
    xml = (
        '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
        f'<dimension ref="{dimension}"/><sheetData>{rows}</sheetData></worksheet>'
    )
    return rezipped(workbook(lambda book: None), {"xl/worksheets/sheet1.xml": xml.encode()})


def test_a_sheet_that_says_it_is_huge_is_read_as_it_is() -> None:
    assert texts(read(sheet('<row r="1"><c r="A1"><v>7</v></c></row>', "A1:XFD1048576"))) == [["7"]]


@pytest.mark.parametrize(
    "rows",
    [
        '<row r="1"/><row r="999999999999"><c r="A999999999999"><v>7</v></c></row>',
        "".join(f'<row r="{n}"><c r="XFD{n}"><v>7</v></c></row>' for n in range(1, 200)),
    ],
)
def test_a_sheet_of_few_cells_that_lie_far_apart(rows: str) -> None:
    with pytest.raises(FileTooLarge, match="cells"):
        read(sheet(rows), limits=DocumentLimits(cells=100_000))


def test_a_csv_of_too_many_cells_and_one_of_a_single_huge_cell() -> None:
    with pytest.raises(FileTooLarge, match="cells"):
        read(b",\n" * 600, "a.csv", limits=DocumentLimits(cells=1000))
    with pytest.raises((FileTooLarge, CorruptFile)):
        read(b'a,b\n"' + b"x" * 3_000_000, "a.csv")


def test_html_nested_as_deep_as_it_likes_is_read() -> None:
    deep = 20_000
    assert texts(read(b"<html><body>" + b"<div>" * deep + b"Hello" + b"</div>" * deep, "a.html")) == [["Hello"]]
    assert texts(read(b"<html><body>" + b"<table><tr><td>" * deep + b"Hello", "a.html"))[0] == ["Hello"]


def test_a_mail_of_nested_parts_is_refused() -> None:
    parts = b""
    for number in range(3000):
        parts += b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (number, number)
    with pytest.raises((FileTooLarge, CorruptFile)):
        read(b"From: a@b\nTo: c@d\nSubject: x\n" + parts + b"\nHello\n", "a.eml")


def test_attachments_share_the_limits_of_their_mail() -> None:
    message = mail(body="x" * 40)
    attach(message, b"y" * 40, "a.txt", "text/plain")
    assert read(message.as_bytes(), "a.eml").pages[1].text == "y" * 40
    with pytest.raises(FileTooLarge, match="characters"):
        read(message.as_bytes(), "a.eml", limits=DocumentLimits(characters=160))
    bombed = mail()
    attach(bombed, rezipped(word(a_word), {"a.bin": bytes(5 * MB)}), "a.docx")
    with pytest.raises(FileTooLarge, match="ratio"):
        read(bombed.as_bytes(), "a.eml")


@pytest.mark.parametrize("box", [b"0 0 14400 14400", b"0 0 900000000 1", b"0 0 2000000 2000000", b"0 0 0.001 0.001"])
def test_a_page_of_any_size_is_rendered_within_its_pixels(box: bytes) -> None:
    parrot = Parrot()
    read(pdf_of_stream(b"", box=box, filters=b""), ocr=parrot)
    [seen] = parrot.seen
    assert 0 < seen.width * seen.height <= DocumentLimits().page_pixels * 1.01


def test_a_tree_of_pages_that_goes_in_circles_or_has_more_than_allowed() -> None:
    circle = raw_pdf([b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[2 0 R 2 0 R]/Count 2>>"])
    with pytest.raises((CorruptFile, FileTooLarge)):
        read(circle)
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>"
    shared = b"<</Type/Pages/Count 900/Kids[" + b"3 0 R " * 900 + b"]>>"
    with pytest.raises(FileTooLarge, match="pages"):
        read(raw_pdf([b"<</Type/Catalog/Pages 2 0 R>>", shared, page]))


def test_a_pdf_that_says_it_has_millions_of_pages() -> None:
    """One that says even more is not believed: its pages are counted."""
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>"

    def saying(count: int) -> bytes:
        pages = b"<</Type/Pages/Kids[3 0 R]/Count %d>>" % count
        return raw_pdf([b"<</Type/Catalog/Pages 2 0 R>>", pages, page])

    with pytest.raises(FileTooLarge, match="pages: 1000000"):
        read(saying(1_000_000))
    assert len(read(saying(2**31 - 1)).pages) == 1
