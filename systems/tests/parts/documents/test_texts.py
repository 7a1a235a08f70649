"""HTML, CSV, plain text and mails."""

import pytest

from rowmill_systems.parts.documents.document import Kind
from rowmill_systems.parts.documents.errors import CorruptFile, EmptyFile, FileTooLarge, UnsupportedFile
from rowmill_systems.parts.documents.limits import DocumentLimits
from systems.tests.parts.documents.files import attach, mail, pdf, read, texts, word, written

HTML = """<!doctype html><html><head><title>Shop &amp; more</title><style>p {{}}</style>
<script>var no = "1 < 2";</script>
{meta}</head><body><h1>Your   order</h1><p>Dear <b>Bob</b>,<br>thanks &ndash; für alles.</p>
<table><tr><th>Item<th>Price</tr><tr><td><p>Paper</p><p>A4</p></td><td>12,50&nbsp;€</td></tr></table>
<noscript>no</noscript><div style="display: none">no<div>no</div></div>
<span hidden>no</span><div>Bye<input value="kept"><input type=hidden value="no"></div></body></html>"""


def test_html_is_what_a_browser_shows() -> None:
    document = read(HTML.format(meta="").encode(), "order")
    assert (document.kind, document.media_type) == (Kind.HTML, "text/html")
    assert texts(document) == [
        ["Your order", "Dear Bob,", "thanks – für alles.", "Item\tPrice", "Paper A4\t12,50 €", "Bye kept"]
    ]
    assert document.facts == {"title": "Shop & more"}


@pytest.mark.parametrize(
    ("encoding", "meta"),
    [
        ("utf-8", ""),
        ("utf-16", ""),
        ("cp1252", ""),
        ("cp1252", '<meta charset="iso-8859-1">'),
        ("iso8859-15", '<meta http-equiv="Content-Type" content="text/html; charset=ISO-8859-15">'),
    ],
)
def test_html_is_decoded_as_it_says_or_as_it_looks(encoding: str, meta: str) -> None:
    document = read(HTML.format(meta=meta).replace("&ndash;", "-").encode(encoding), "a.html")
    assert "12,50 €" in document.text
    assert "für" in document.text


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp1252"])
def test_csv_in_any_usual_encoding(encoding: str) -> None:
    file = 'Name;Betrag\n"Müller; Söhne";1.190,50\nMeier;7,00\n'.encode(encoding)
    document = read(file, "a.csv")
    assert (document.kind, document.media_type) == (Kind.CSV, "text/csv")
    assert texts(document) == [["Name\tBetrag", "Müller; Söhne\t1.190,50", "Meier\t7,00"]]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_csv_with_any_usual_delimiter(delimiter: str) -> None:
    file = "\n".join(delimiter.join(row) for row in (["a", "b", "c"], ["1", '"two\nlines"', "3"]))
    document = read(file.encode(), "a.csv")
    assert texts(document) == [["a\tb\tc", "1\ttwo lines\t3"]]


@pytest.mark.parametrize(
    ("file", "rows"),
    [
        # Rows of different lengths, each with the same number of decimal commas.
        (
            "Netto;10,00\nMwSt;19 %;1,90\nPos;Text;Preis;5,00\n",
            ["Netto\t10,00", "MwSt\t19 %\t1,90", "Pos\tText\tPreis\t5,00"],
        ),
        ("1,2,3\n4,5,6\n", ["1\t2\t3", "4\t5\t6"]),
        # More lines without cells than with.
        ("Fattura\nConti\nMilano\nTotale;12,50\n", ["Fattura", "Conti", "Milano", "Totale\t12,50"]),
    ],
)
def test_decimal_commas_part_no_cells_and_commas_do(file: str, rows: list[str]) -> None:
    assert texts(read(file.encode(), "a.csv")) == [rows]


def test_text_keeps_its_lines_and_tabs_and_form_feeds_part_its_pages() -> None:
    document = read(b"One  two\r\nthree\tfour\n\n\fNext page", "a.txt")
    assert (document.kind, document.media_type) == (Kind.TEXT, "text/plain")
    assert texts(document) == [["One  two", "three\tfour"], ["Next page"]]


def test_a_mail_is_its_headers_and_its_body() -> None:
    document = read(mail(subject="Größe", body="Dear Bob,\n\nsee below.").as_bytes(), "a.eml")
    assert (document.kind, document.media_type) == (Kind.EMAIL, "message/rfc822")
    assert texts(document) == [
        [
            "From: Ann <ann@example.com>",
            "To: bob@example.com",
            "Subject: Größe",
            "Date: Tue, 31 Mar 2026 10:00:00 +0200",
            "Dear Bob,",
            "see below.",
        ]
    ]


def test_a_mail_that_is_only_html_is_read_as_html() -> None:
    message = mail()
    message.set_content("<p>Only <i>this</i></p><script>no()</script>", subtype="html")
    assert texts(read(message.as_bytes(), "a.eml"))[0][4:] == ["Only this"]


def test_attachments_of_a_mail_are_further_pages_and_those_that_cannot_be_read_are_counted() -> None:
    inner = mail(subject="Inner", body="Forwarded")
    attach(inner, b"a,b\n1,2", "in.csv", "text/csv")
    message = mail()
    attach(message, pdf(written((72, 700, "Page one")), written((72, 700, "Page two"))), "a.pdf", "application/pdf")
    attach(message, b"\x00\x01\x02program", "a.exe")
    attach(message, word(lambda document: document.add_paragraph("A letter")), "a.docx")
    message.add_attachment(inner)
    document = read(message.as_bytes(), "a.eml")
    assert [(page.number, page.title) for page in document.pages] == [
        (1, ""), (2, "a.pdf"), (3, "a.pdf"), (4, "a.docx"), (5, "mail.eml"), (6, "mail.eml: in.csv"),
    ]  # fmt: skip
    assert texts(document)[1:4] == [["Page one"], ["Page two"], ["A letter"]]
    assert texts(document)[4][-1] == "Forwarded"
    assert texts(document)[5] == ["a\tb", "1\t2"]
    assert document.facts["unread_attachments"] == 1


def test_mails_in_mails_and_attachments_are_bounded() -> None:
    nested = mail()
    for _ in range(4):
        outer = mail()
        outer.add_attachment(nested)
        nested = outer
    with pytest.raises(FileTooLarge, match="mails in mails"):
        read(nested.as_bytes(), "a.eml")
    many = mail()
    for number in range(4):
        attach(many, b"text", f"{number}.txt", "text/plain")
    with pytest.raises(FileTooLarge, match="attachments"):
        read(many.as_bytes(), "a.eml", limits=DocumentLimits(attachments=3))


def test_the_uploader_decides_only_between_kinds_of_text() -> None:
    rows = b"a,b\n1,2\n"
    assert read(rows, "rows").kind is Kind.TEXT
    assert read(rows, "rows.CSV").kind is Kind.CSV
    assert read(rows, "rows", media_type="text/csv; header=present").kind is Kind.CSV
    assert read(mail().as_bytes(), "no extension").kind is Kind.EMAIL
    assert read(mail().as_bytes(), "a.txt").kind is Kind.TEXT
    lie = read(pdf(written((72, 700, "A page of text"))), "a.csv", media_type="text/csv")
    assert (lie.kind, lie.media_type) == (Kind.PDF, "application/pdf")


def test_what_is_empty_unknown_or_no_mail_has_its_own_error() -> None:
    with pytest.raises(EmptyFile):
        read(b"", "a.pdf")
    with pytest.raises(UnsupportedFile):
        read(b"\x7fELF\x02\x01\x01" + bytes(100), "a.txt")
    with pytest.raises(UnsupportedFile):
        read(rb"{\rtf1\ansi Hello}", "a.txt")
    with pytest.raises(CorruptFile):
        read(b"no headers at all", "a.eml")
    with pytest.raises(FileTooLarge, match="bytes: 9, and 8 are allowed"):
        read(b"nine byte", "a.txt", limits=DocumentLimits(bytes=8))
    with pytest.raises(FileTooLarge, match="characters"):
        read(b"nine byte", "a.txt", limits=DocumentLimits(characters=8))


def test_characters_that_a_database_would_refuse_do_not_come_through() -> None:
    assert texts(read("a\0b\x1b[1mc".encode("utf-16"), "a.txt")) == [["ab[1mc"]]
    raw = mail().as_bytes().replace(b"Subject: Invoice", b"Subject: In\xe9v\x01oice")
    document = read(raw, "a.eml")
    assert (document.text + str(document.facts["title"])).encode("utf-8")
    assert "\x01" not in document.text


def test_what_begins_with_comments_without_end_is_told_apart_at_once() -> None:
    """A careless pattern would try two to the power of a thousand ways."""
    assert read(b"<!---->" * 1000, "a").kind is Kind.TEXT
    assert read(b"<?xml version='1.0'?>\n<!-- a -->\n<!-- b --><html><p>Hello</p></html>", "a").kind is Kind.HTML


def test_a_file_sent_inline_is_read_and_an_image_in_the_text_is_not() -> None:
    message = mail()
    attach(message, b"a,b", "a.csv", "text/csv")
    attach(message, b"\x89PNG broken", "logo.png", "image/png")
    for part in message.iter_attachments():
        part.replace_header("Content-Disposition", f'inline; filename="{part.get_filename()}"')
    document = read(message.as_bytes(), "a.eml")
    assert [page.title for page in document.pages] == ["", "a.csv"]
    assert "unread_attachments" not in document.facts
