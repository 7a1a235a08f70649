"""Papers as scans: slightly rotated, grey, noisy and blurred."""

import io
import random

import pypdfium2  # type: ignore[import-untyped]
from PIL import Image, ImageFilter
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas


def scanned(pdf: bytes, chance: random.Random) -> Image.Image:
    """Return the first page of a PDF as a degraded image."""
    dpi = chance.choice((150, 175, 200))
    with pypdfium2.PdfDocument(pdf) as document:
        image: Image.Image = document[0].render(scale=dpi / 72).to_pil().convert("L")
    paper = chance.randint(225, 252)
    image = image.point(lambda value: value * paper // 255)
    image = image.rotate(chance.uniform(-1, 1), Image.Resampling.BICUBIC, fillcolor=paper)
    image = image.filter(ImageFilter.GaussianBlur(chance.uniform(0.2, 0.7)))
    grain = Image.frombytes("L", image.size, chance.randbytes(image.width * image.height))
    image = Image.blend(image, grain, chance.uniform(0.01, 0.06))
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=chance.randint(45, 85), dpi=(dpi, dpi))
    return Image.open(io.BytesIO(buffer.getvalue())).convert("L")


def as_file(image: Image.Image, kind: str) -> bytes:
    """Return the image as scan-pdf (without text), scan-png or scan-tiff."""
    buffer = io.BytesIO()
    if kind == "scan-pdf":
        _pdf(image, buffer)
    elif kind == "scan-png":
        image.save(buffer, "PNG")
    else:
        image.save(buffer, "TIFF", compression="tiff_lzw")
    return buffer.getvalue()


def _pdf(image: Image.Image, buffer: io.BytesIO) -> None:

    size = (image.width * 72 / 175, image.height * 72 / 175)
    canvas = Canvas(buffer, pagesize=size, invariant=1)
    canvas.drawImage(ImageReader(image), 0, 0, *size)
    canvas.showPage()
    canvas.save()
