"""Images: OCR of each frame, and facts of the file, without the place where it was taken."""

import io
from collections.abc import Iterator
from contextlib import contextmanager

from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from rowmill_systems.parts.documents.document import Page
from rowmill_systems.parts.documents.errors import CorruptFile, FileTooLarge, OutOfMemory
from rowmill_systems.parts.documents.limits import DocumentLimits
from rowmill_systems.parts.documents.reading import Contents, Facts, ReadingState, known

FORMATS = ("PNG", "JPEG", "TIFF", "WEBP", "BMP", "GIF")
BROKEN = (
    UnidentifiedImageError,
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    TypeError,
    IndexError,
    KeyError,
    ZeroDivisionError,
)
"""Errors that Pillow raises for broken files."""


@contextmanager
def opened(file_bytes: bytes) -> Iterator[Image.Image]:
    try:
        with Image.open(io.BytesIO(file_bytes), formats=FORMATS) as image:
            yield image
    except Image.DecompressionBombError as error:
        raise FileTooLarge("pixels of the image") from error
    except MemoryError as error:
        raise OutOfMemory("memory") from error
    except BROKEN as error:
        raise CorruptFile("a broken image") from error


def frames_of(image: Image.Image) -> int:
    """Return how many frames are read: all pages of a TIFF, and the first frame of an animation."""
    return int(getattr(image, "n_frames", 1)) if image.format == "TIFF" else 1


def upright(image: Image.Image, frame: int, limits: DocumentLimits) -> Image.Image:
    """Return a frame in RGB on white, turned as its camera says, with at most the pixels of a rendered page."""
    image.seek(frame)
    limits.check("pixels of the image", image.width * image.height, limits.image_pixels)
    times = (image.width * image.height / limits.page_pixels) ** 0.5
    if times > 1:
        image.draft("RGB", (int(image.width / times), int(image.height / times)))
    turned = ImageOps.exif_transpose(_smaller(_coloured(image), limits))
    return turned if turned.mode == "RGB" else turned.convert("RGB")


def _coloured(image: Image.Image) -> Image.Image:
    """Convert palettes to colours: palettes can't be scaled, and OCR engines find nothing in them."""
    if image.mode in ("1", "L", "RGB"):
        image.load()
        return image.convert("L") if image.mode == "1" else image
    if image.mode.startswith(("I", "F")):  # 16 bits a pixel: convert would cut, not scale
        return image.point(lambda value: value / 256).convert("L") if image.mode.startswith("I") else image.convert("L")
    if image.has_transparency_data:
        paper = Image.new("RGB", image.size, "white")
        full = image.convert("RGBA")
        paper.paste(full, mask=full.getchannel("A"))
        paper.info = {"exif": image.info["exif"]} if "exif" in image.info else {}
        return paper
    return image.convert("RGB")


def _smaller(image: Image.Image, limits: DocumentLimits) -> Image.Image:
    pixels = image.width * image.height
    if pixels <= limits.page_pixels:
        return image
    exif = image.getexif()
    smaller = image.reduce(int((pixels / limits.page_pixels) ** 0.5) + 1)
    smaller.getexif().update(exif)
    return smaller


def read(file_bytes: bytes, reading: ReadingState) -> Contents:
    with opened(file_bytes) as image:
        facts, number = _facts(image), frames_of(image)
        reading.limits.check("pages", reading.pages + number, reading.limits.pages)
    pages = tuple(_read_frame(file_bytes, frame, number, reading) for frame in range(number))
    if reading.ocr:
        facts["ocr"] = reading.ocr.name
    return Contents(pages, facts)


def _read_frame(file_bytes: bytes, frame: int, number: int, reading: ReadingState) -> Page:
    reading.progress(frame + 1, number)
    seen = _seen(file_bytes, frame, reading.limits)  # without OCR, too: a broken image is not a read one
    return reading.page(frame + 1, reading.recognise(seen), scanned=True)


def _seen(file_bytes: bytes, frame: int, limits: DocumentLimits) -> Image.Image:
    """Return a frame as OCR needs it.

    Opens the file anew: an open image would keep all its pixels in memory meanwhile.
    """
    with opened(file_bytes) as image:
        return upright(image, frame, limits)


def _facts(image: Image.Image) -> Facts:
    exif = image.getexif()
    taken = exif.get_ifd(ExifTags.IFD.Exif).get(ExifTags.Base.DateTimeOriginal) or exif.get(ExifTags.Base.DateTime)
    sideways = exif.get(ExifTags.Base.Orientation) in (5, 6, 7, 8)
    width, height = (image.height, image.width) if sideways else image.size
    return known(
        {
            "width": width,
            "height": height,
            "format": (image.format or "").lower(),
            "created": _iso(taken) if isinstance(taken, str) else None,
        }
    )


def _iso(taken: str) -> str | None:
    """Convert `2026:03:31 10:00:00`, as cameras write it."""
    date, _, time = taken.strip("\0 ").partition(" ")
    return f"{date.replace(':', '-')}T{time}" if len(date) == 10 and len(time) == 8 else None
