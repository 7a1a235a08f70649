"""Word, Excel and PowerPoint."""

from datetime import date, datetime, time
from typing import Any

import pytest
from docx.enum.text import WD_BREAK
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls
from pptx.util import Inches

from rowmill_systems.parts.documents.document import Kind
from rowmill_systems.parts.documents.errors import CorruptFile, EncryptedFile, UnsupportedFile
from rowmill_systems.parts.documents.formats.xlsx_cells import shown
from systems.tests.parts.documents.files import read, rezipped, slides, texts, word, workbook


def a_letter(document: Any) -> None:
    document.core_properties.title, document.core_properties.author = "Letter", "Ann"
    document.core_properties.created = datetime(2026, 3, 31, 10)
    document.sections[0].header.paragraphs[0].text = "Acme Ltd"
    document.sections[0].footer.paragraphs[0].text = "Page 1"
    document.add_paragraph("Dear Bob")
    table = document.add_table(2, 3)
    for row, cells in zip(table.rows, (("Item", "Price", "Tax"), ("Paper", "12.50", "19%")), strict=True):
        for cell, text in zip(row.cells, cells, strict=True):
            cell.text = text
    document.add_paragraph("Yours\tAnn")


def test_word_is_read_in_its_order_between_header_and_footer() -> None:
    """F11."""
    document = read(word(a_letter))
    assert document.kind is Kind.DOCX
    assert texts(document) == [
        ["Acme Ltd", "Dear Bob", "Item\tPrice\tTax", "Paper\t12.50\t19%", "Yours\tAnn", "Page 1"]
    ]
    assert document.facts == {"title": "Letter", "author": "Ann", "created": "2026-03-31"}


def test_merged_cells_of_word_are_read_once() -> None:
    def fill(document: Any) -> None:
        table = document.add_table(2, 2)
        table.cell(0, 0).merge(table.cell(0, 1)).text = "Both"
        table.cell(1, 0).text, table.cell(1, 1).text = "One", "Other"

    assert texts(read(word(fill))) == [["Both", "One\tOther"]]


def test_content_controls_and_text_boxes_of_word_are_read() -> None:
    control = (
        "<w:sdt {}><w:sdtPr><w:tag w:val='x'/></w:sdtPr><w:sdtContent><w:p><w:r><w:t>Chosen</w:t></w:r></w:p>"
        "</w:sdtContent></w:sdt>"
    )
    box = (
        "<w:p {}><w:r><w:t>Beside</w:t></w:r><w:r><w:pict><w:txbxContent><w:p><w:r><w:t>Boxed</w:t></w:r></w:p>"
        "</w:txbxContent></w:pict></w:r></w:p>"
    )

    def fill(document: Any) -> None:
        for xml in (control, box):
            document.element.body.insert_element_before(parse_xml(xml.format(nsdecls("w"))), "w:sectPr")

    assert texts(read(word(fill))) == [["Chosen", "Beside", "Boxed"]]


def test_page_breaks_of_word_part_pages() -> None:
    def fill(document: Any) -> None:
        document.add_paragraph("One").add_run().add_break(WD_BREAK.PAGE)
        document.add_paragraph("Two")

    document = read(word(fill))
    assert texts(document) == [["One"], ["Two"]]
    assert [page.number for page in document.pages] == [1, 2]


def test_each_sheet_is_a_page_with_cells_as_people_see_them() -> None:
    def fill(book: Any) -> None:
        first = book.active
        first.title = "Invoices"
        first.append(["Number", "Date", "Total", "Tax", "Paid"])
        first.append(["R-1", date(2026, 3, 31), 1190.5, 0.19, True])
        first["C2"].number_format, first["D2"].number_format = '#,##0.00 "EUR"', "0%"
        second = book.create_sheet("More")
        second["C3"] = "far"

    document = read(workbook(fill))
    assert document.kind is Kind.XLSX
    assert [page.title for page in document.pages] == ["Invoices", "More"]
    assert texts(document) == [
        ["Number\tDate\tTotal\tTax\tPaid", "R-1\t2026-03-31\t1190.50 EUR\t19%\tTRUE"],
        ["\t\tfar"],
    ]
    assert document.facts["sheets"] == 2


@pytest.mark.parametrize(
    ("value", "number_format", "text"),
    [
        (1190, "General", "1190"),
        (1190.0, "General", "1190"),
        (0.1 + 0.2, "General", "0.3"),
        (1234.5, "#,##0.00", "1234.50"),
        (1234.5, "#,##0.00 [$€-407]", "1234.50 €"),
        (-3, "0.00;[Red]-0.00", "-3.00"),
        (1234.5, "$#,##0.0#", "1234.5 $"),
        (0.075, "0.0%", "7.5%"),
        (1e20, "General", "1e+20"),
        (7, "@", "7"),
        (datetime(2026, 3, 31, 10, 5), "dd/mm/yyyy hh:mm", "2026-03-31 10:05"),
        (datetime(2026, 3, 31), "mm-dd-yy", "2026-03-31"),
        (time(10, 5, 7), "hh:mm:ss", "10:05:07"),
        (False, "General", "FALSE"),
        (None, "General", ""),
        ("as it is", "General", "as it is"),
    ],
)
def test_cells_are_shown_without_what_depends_on_a_place(value: Any, number_format: str, text: str) -> None:
    assert shown(value, number_format) == text


def test_each_slide_is_a_page_with_tables_and_notes() -> None:
    def fill(show: Any) -> None:
        slide = show.slides.add_slide(show.slide_layouts[5])
        slide.shapes.title.text = "Results"
        lower = slide.shapes.add_textbox(Inches(1), Inches(5), Inches(3), Inches(1))
        lower.text_frame.text = "Below"
        table = slide.shapes.add_table(1, 2, Inches(1), Inches(3), Inches(4), Inches(1)).table
        table.cell(0, 0).text, table.cell(0, 1).text = "Profit", "12"
        slide.notes_slide.notes_text_frame.text = "Say it slowly"
        show.slides.add_slide(show.slide_layouts[6])

    document = read(slides(fill))
    assert document.kind is Kind.PPTX
    assert texts(document) == [["Results", "Profit\t12", "Below", "Say it slowly"], []]
    assert [page.title for page in document.pages] == ["Results", ""]
    assert document.facts["slides"] == 2


@pytest.mark.parametrize("name", ["word/document.xml", "[Content_Types].xml"])
def test_an_office_file_with_broken_parts_is_corrupt_or_no_office_file(name: str) -> None:
    with pytest.raises((CorruptFile, UnsupportedFile)):
        read(rezipped(word(a_letter), {name: b"<broken"}))


def test_an_office_file_cut_short_is_corrupt() -> None:
    file = word(a_letter)
    with pytest.raises(CorruptFile):
        read(file[: len(file) // 2])


def test_an_office_file_with_a_password_is_encrypted_and_an_old_one_is_unsupported() -> None:
    compound = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(512)
    with pytest.raises(EncryptedFile):
        read(compound + "EncryptedPackage".encode("utf-16-le"))
    with pytest.raises(UnsupportedFile):
        read(compound)
