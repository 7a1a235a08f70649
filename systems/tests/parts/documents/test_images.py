"""Images: what OCR is given, and what the file says of itself."""

import io

import pytest
from PIL import Image

from rowmill_systems.parts.documents.document import Kind
from rowmill_systems.parts.documents.errors import CorruptFile, FileTooLarge
from rowmill_systems.parts.documents.limits import DocumentLimits
from systems.tests.parts.documents.files import Parrot, read, saved, scan, texts


@pytest.mark.parametrize(
    ("format", "mode"),
    [
        ("PNG", "RGB"), ("PNG", "P"), ("PNG", "1"), ("PNG", "L"), ("PNG", "RGBA"), ("PNG", "LA"), ("PNG", "I;16"),
        ("JPEG", "RGB"), ("JPEG", "L"), ("JPEG", "CMYK"), ("TIFF", "RGB"), ("TIFF", "1"), ("WEBP", "RGB"),
        ("BMP", "RGB"), ("GIF", "P"),
    ],
)  # fmt: skip
def test_every_kind_of_image_is_given_to_ocr_in_rgb_on_white(format: str, mode: str) -> None:
    image = scan(["Text"], mode="L" if mode == "I;16" else mode)
    if mode == "I;16":
        image = image.convert("I").point(lambda value: value * 257).convert("I;16")
    if mode in ("RGBA", "LA"):
        image.putalpha(image.convert("L").point(lambda value: 255 - value))
    parrot = Parrot()
    document = read(saved(image, format), "a.bin", ocr=parrot)
    assert (document.kind, document.media_type) == (Kind.IMAGE, f"image/{format.lower()}")
    assert document.facts == {"width": 900, "height": 300, "format": format.lower(), "ocr": "parrot"}
    assert texts(document) == [["an image of 900 by 300"]]
    assert document.pages[0].scanned
    [seen] = parrot.seen
    assert seen.mode == "RGB"
    assert min(seen.getpixel((880, 280))) > 240  # type: ignore[arg-type]
    assert seen.convert("L").getextrema()[0] < 60  # type: ignore[operator]


def test_each_page_of_a_tiff_is_a_page_and_only_the_first_picture_of_a_gif() -> None:
    frames = [scan(["One"]), scan(["Two"], size=(300, 300))]
    tiff = saved(frames[0], "TIFF", save_all=True, append_images=frames[1:])
    assert texts(read(tiff, ocr=Parrot())) == [["an image of 900 by 300"], ["an image of 300 by 300"]]
    gif = saved(frames[0], "GIF", save_all=True, append_images=[scan(["Other"])])
    assert len(read(gif, ocr=Parrot()).pages) == 1
    with pytest.raises(FileTooLarge, match="pages"):
        read(tiff, limits=DocumentLimits(pages=1))


def test_what_the_camera_says_of_time_and_turn_is_used_and_where_it_was_is_not() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    exif[0x0132] = "2026:03:31 10:00:00"
    exif.get_ifd(0x8825)[1] = "N"
    exif.get_ifd(0x8825)[2] = (52.0, 31.0, 0.0)
    parrot = Parrot()
    document = read(saved(scan(["Text"]), "JPEG", exif=exif), ocr=parrot)
    assert texts(document) == [["an image of 300 by 900"]]
    assert document.facts == {
        "width": 300, "height": 900, "format": "jpeg", "created": "2026-03-31T10:00:00", "ocr": "parrot",
    }  # fmt: skip


@pytest.mark.parametrize("format", ["PNG", "JPEG", "TIFF"])
def test_a_large_image_is_made_smaller_before_it_is_read(format: str) -> None:
    parrot, exif = Parrot(), Image.Exif()
    exif[0x0112] = 6
    read(saved(scan(["Text"]), format, exif=exif), ocr=parrot, limits=DocumentLimits(page_pixels=100_000))
    [seen] = parrot.seen
    assert 20_000 < seen.width * seen.height <= 100_000
    assert seen.width < seen.height


def test_an_image_without_ocr_has_a_page_without_lines() -> None:
    document = read(saved(scan(["Text"]), "PNG"))
    assert texts(document) == [[]]
    assert "ocr" not in document.facts


@pytest.mark.parametrize("format", ["PNG", "JPEG", "TIFF", "WEBP", "BMP", "GIF"])
def test_an_image_cut_short_is_corrupt(format: str) -> None:
    file = saved(scan(["Text"] * 3), format)
    with pytest.raises(CorruptFile):
        read(file[: len(file) // 2])
    with pytest.raises(CorruptFile):
        read(file[:20])


def test_more_pixels_than_allowed_are_refused_before_they_are_unpacked() -> None:
    file = saved(Image.new("1", (8_000, 8_000)), "PNG")
    assert len(file) < 100_000
    with pytest.raises(FileTooLarge, match="pixels"):
        read(file)
    header = io.BytesIO(saved(Image.new("L", (4, 4)), "BMP")).getbuffer()
    header[18:26] = (60_000).to_bytes(4, "little") * 2
    with pytest.raises(FileTooLarge, match="pixels"):
        read(bytes(header))
