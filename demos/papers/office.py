"""The same sheets as office files, mails and plain text."""

import csv
import html
import io
import random
import re
import zipfile
from collections.abc import Sequence
from email.message import EmailMessage

import docx
import openpyxl  # type: ignore[import-untyped]

from demos.papers.paper import Sheet


def as_docx(sheet: Sheet, chance: random.Random) -> bytes:
    document = docx.Document()
    for text in [*sheet.sender, *sheet.contact]:
        document.add_paragraph(text)
    document.add_heading(sheet.title or sheet.doc_type.title(), level=1)
    for label, lines in [(sheet.recipient_label, sheet.recipient), *sheet.others]:
        for text in [f"{label}:" if label else "", *lines]:
            if text:
                document.add_paragraph(text)
    facts = document.add_table(rows=0, cols=2)
    for label, value in sheet.meta:
        row = facts.add_row().cells
        row[0].text, row[1].text = label, value
    for text in sheet.intro:
        for line in text.split("\n"):
            document.add_paragraph(line)
    if sheet.rows:
        items = document.add_table(rows=0, cols=len(sheet.columns))
        for cells in [sheet.columns, *sheet.rows]:
            for cell, text in zip(items.add_row().cells, cells, strict=True):
                cell.text = text.replace("\n", " ")
    sums = document.add_table(rows=0, cols=2)
    for label, value in sheet.totals:
        row = sums.add_row().cells
        row[0].text, row[1].text = label, value
    for text in [*sheet.outro, *(line for column in sheet.footer[1:] for line in column)]:
        document.add_paragraph(text)
    buffer = io.BytesIO()
    document.save(buffer)
    return timeless(buffer)


def timeless(office: io.BytesIO) -> bytes:
    """Remove timestamps from a file, so that the same seed gives the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(office) as given, zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
        for entry in given.infolist():
            content = given.read(entry)
            if entry.filename == "docProps/core.xml":
                content = re.sub(rb"20\d\d-\d\d-\d\dT[\d:]+Z", b"2026-01-01T00:00:00Z", content)
            packed.writestr(zipfile.ZipInfo(entry.filename), content)
    return buffer.getvalue()


def rows_of(sheet: Sheet) -> list[list[str]]:
    """Return the sheet as rows of cells."""
    rows = [[sheet.title], [], *([text] for text in sheet.sender), *([text] for text in sheet.contact), []]
    for label, lines in [(sheet.recipient_label, sheet.recipient), *sheet.others]:
        if lines:
            rows += [[label, lines[0]], *(["", text] for text in lines[1:]), []]
    rows += [[label, value] for label, value in sheet.meta]
    rows += [[], *([text.replace("\n", " ")] for text in sheet.intro), []]
    rows += [[cell.replace("\n", " ") for cell in cells] for cells in [sheet.columns, *sheet.rows] if cells]
    rows += [[], *(["", "", label, value] for label, value in sheet.totals), []]
    return rows + [[text] for text in [*sheet.outro, *(line for column in sheet.footer[1:] for line in column)]]


def as_xlsx(sheet: Sheet, chance: random.Random) -> bytes:
    book = openpyxl.Workbook()
    page = book.active
    for cells in rows_of(sheet):
        page.append(cells or [""])
    buffer = io.BytesIO()
    book.save(buffer)
    return timeless(buffer)


def as_csv(sheet: Sheet, chance: random.Random) -> bytes:
    text = io.StringIO()
    csv.writer(text, delimiter=chance.choice(",;")).writerows(row for row in rows_of(sheet) if row)
    return text.getvalue().encode()


def as_html(sheet: Sheet, chance: random.Random, *, definitions: bool = False) -> bytes:
    """Return HTML with facts in a table; in the held-out form, in a definition list."""
    parts = [
        f"<h2>{_lines(sheet.sender[:1])}</h2><p>{_lines([*sheet.sender[1:], *sheet.contact])}</p>",
        f"<h1>{html.escape(sheet.title)}</h1>",
    ]
    for label, lines in [(sheet.recipient_label, sheet.recipient), *sheet.others]:
        parts.append(f"<p>{_lines([label + ':'] if label else [])}</p><p>{_lines(lines)}</p>")
    if definitions:
        pairs = (f"<dt>{html.escape(label)}</dt><dd>{html.escape(value)}</dd>" for label, value in sheet.meta)
        parts.append(f"<dl>{''.join(pairs)}</dl>")
    else:
        parts.append(_table(sheet.meta))
    parts += [f"<p>{_lines([text])}</p>" for text in sheet.intro]
    if sheet.rows:
        parts.append(_table([sheet.columns, *sheet.rows]))
    parts.append(_table(sheet.totals))
    parts += [f"<p>{_lines([text])}</p>" for text in sheet.outro]
    parts += [f"<p>{_lines(column)}</p>" for column in sheet.footer[1:]]
    head = f"<head><meta charset='utf-8'><title>{html.escape(sheet.title)}</title></head>"
    return f"<!doctype html><html>{head}<body>{''.join(parts)}</body></html>".encode()


def _lines(texts: Sequence[str]) -> str:
    return "<br>".join(html.escape(text).replace("\n", "<br>") for text in texts)


def _table(rows: Sequence[Sequence[str]]) -> str:
    cells = ("".join(f"<td>{html.escape(cell).replace(chr(10), ' ')}</td>" for cell in row) for row in rows)
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


def as_txt(sheet: Sheet, chance: random.Random, *, leaders: bool = False) -> bytes:
    """Return text with columns of spaces; in the held-out form, with rows of dots between label and value."""

    def pair(label: str, value: str, width: int = 26) -> str:
        return (
            f"{label} {'.' * (width - len(label))} {value}"
            if leaders and label
            else f"{label + ':' if label else '':<{width}}{value}"
        )

    lines = [*sheet.sender, *sheet.contact, "", sheet.title, ""]
    for label, block in [(sheet.recipient_label, sheet.recipient), *sheet.others]:
        lines += [f"{label}:"] if label and block else []
        lines += [*block, ""]
    lines += [pair(label, value) for label, value in sheet.meta]
    lines += ["", *(part for text in sheet.intro for part in [*text.split("\n"), ""])]
    for cells in [sheet.columns, *sheet.rows] if sheet.rows else []:
        first, *more = cells[0].split("\n")
        lines.append(f"{first:<34}" + "".join(f"{cell:>16}" for cell in cells[1:]))
        lines += more
    lines += [
        "",
        *(f"{label:>60}  {value:>16}" if not leaders else pair(label, value, 40) for label, value in sheet.totals),
        "",
    ]
    lines += [*sheet.outro, "", *(line for column in sheet.footer[1:] for line in column)]
    return "\n".join(lines).encode()


def as_eml(sheet: Sheet, chance: random.Random) -> bytes:
    mail = EmailMessage()
    mail["From"], mail["To"] = sheet.mail
    sheet.expected["email"] = sheet.mail[0]
    mail["Subject"], mail["Date"] = sheet.title or sheet.expected["subject"], "Fri, 01 Jan 2027 09:00:00 +0000"
    if chance.random() < 0.5:
        mail.set_content(as_txt(sheet, chance).decode())
    else:
        mail.set_content(as_html(sheet, chance).decode(), subtype="html")
    return mail.as_bytes()
