"""Real files, made for the tests that read them."""

import io
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from email.message import EmailMessage
from typing import Any

import docx
import openpyxl  # type: ignore[import-untyped]
import pptx
from PIL import Image, ImageDraw, ImageFont
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from rowmill_systems.parts.documents.document import Document, Line
from rowmill_systems.parts.documents.limits import DocumentLimits
from rowmill_systems.parts.documents.ocr.engine import Ocr
from rowmill_systems.parts.documents.read import read_document

A4 = (595.0, 842.0)
SMALL = DocumentLimits(seconds=30.0)


def read(
    file_bytes: bytes,
    filename: str = "file",
    *,
    media_type: str | None = None,
    limits: DocumentLimits = SMALL,
    ocr: Ocr | None = None,
    progress: Callable[[int, int], None] = lambda page, of_pages: None,
) -> Document:
    return read_document(
        file_bytes, filename=filename, media_type=media_type, limits=limits, ocr=ocr, progress=progress
    )


def texts(document: Document) -> list[list[str]]:
    return [[line.text for line in page.lines] for page in document.pages]


class Parrot:
    """An engine that says what it saw: the size of the image, and how dark its left upper quarter is."""

    name = "parrot"

    def __init__(self) -> None:
        self.seen: list[Image.Image] = []

    def read(self, image: Image.Image) -> tuple[Line, ...]:
        self.seen.append(image)
        return (Line(f"an image of {image.width} by {image.height}"),)


Draw = Callable[[Canvas], None]


def pdf(*pages: Draw, size: tuple[float, float] = A4, **options: Any) -> bytes:
    """Each page is drawn by a function."""
    file = io.BytesIO()
    canvas = Canvas(file, pagesize=size, pageCompression=0, invariant=1, **options)
    for draw in pages:
        canvas.setFont("Helvetica", 11)
        draw(canvas)
        canvas.showPage()
    canvas.save()
    return file.getvalue()


def written(*lines: tuple[float, float, str]) -> Draw:
    """A page with texts at places, from the lower left corner."""

    def draw(canvas: Canvas) -> None:
        for x, y, text in lines:
            canvas.drawString(x, y, text)

    return draw


def pictured(image: Image.Image) -> Draw:
    """A page that is a scan."""

    def draw(canvas: Canvas) -> None:
        canvas.drawImage(ImageReader(image), 0, 0, *canvas._pagesize)

    return draw


def raw_pdf(objects: Iterable[bytes]) -> bytes:
    """A PDF of objects as they are, numbered from 1; the first is its catalogue."""
    out, places = b"%PDF-1.5\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"xref\n0 %d\n0000000000 65535 f \n" % (len(places) + 1)
    table += b"".join(b"%010d 00000 n \n" % place for place in places)
    return out + table + b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (len(places) + 1, len(out))


def pdf_of_stream(packed: bytes, *, box: bytes = b"0 0 595 842", filters: bytes = b"/FlateDecode") -> bytes:
    return raw_pdf(
        [
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
            b"<</Type/Page/Parent 2 0 R/MediaBox[%s]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>" % box,
            b"<</Filter[%s]/Length %d>>stream\n%s\nendstream" % (filters, len(packed), packed),
            b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        ]
    )


def flate_bomb(megabytes: int) -> bytes:
    packer = zlib.compressobj(9)
    spaces = b" " * 2**20
    return b"".join(packer.compress(spaces) for _ in range(megabytes)) + packer.flush()


def scan(lines: Sequence[str], *, size: tuple[int, int] = (900, 300), mode: str = "RGB") -> Image.Image:
    """Dark text on light paper."""
    image = Image.new("RGB", size, "white")
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(36)
    for number, text in enumerate(lines):
        draw.text((40, 40 + 70 * number), text, fill="black", font=font)
    return image.convert(mode)


def saved(image: Image.Image, format: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


def word(fill: Callable[[Any], None]) -> bytes:
    document, file = docx.Document(), io.BytesIO()
    fill(document)
    document.save(file)
    return file.getvalue()


def workbook(fill: Callable[[Any], None]) -> bytes:
    book, file = openpyxl.Workbook(), io.BytesIO()
    fill(book)
    book.save(file)
    return file.getvalue()


def slides(fill: Callable[[Any], None]) -> bytes:
    show, file = pptx.Presentation(), io.BytesIO()
    fill(show)
    show.save(file)
    return file.getvalue()


def mail(*, subject: str = "Invoice", body: str = "See attached.", html: str | None = None) -> EmailMessage:
    message = EmailMessage()
    message["From"], message["To"] = "Ann <ann@example.com>", "bob@example.com"
    message["Subject"], message["Date"] = subject, "Tue, 31 Mar 2026 10:00:00 +0200"
    message.set_content(body)
    if html is not None:
        message.add_alternative(html, subtype="html")
    return message


def attach(message: EmailMessage, content: bytes, filename: str, media_type: str = "application/octet-stream") -> None:
    main, sub = media_type.split("/")
    message.add_attachment(content, maintype=main, subtype=sub, filename=filename)


def rezipped(file_bytes: bytes, changes: dict[str, bytes]) -> bytes:
    """The same zip with some entries changed or added."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(file_bytes)) as old, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            if name not in changes:
                new.writestr(name, old.read(name))
        for name, content in changes.items():
            new.writestr(name, content)
    return file.getvalue()
