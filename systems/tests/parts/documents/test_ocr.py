"""OCR engines. One clean page is enough to see that the parts fit; how well engines read is theirs."""

import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rowmill_systems.parts.documents.errors import OcrFailed, ReadingTimedOut
from rowmill_systems.parts.documents.ocr.choose import choose
from rowmill_systems.parts.documents.ocr.rapid import RapidOcr, split_words
from rowmill_systems.parts.documents.ocr.tesseract import Tesseract, spots_of
from systems.tests.parts.documents.files import pdf, pictured, read, saved, scan, texts, written

pytestmark = pytest.mark.xdist_group("ocr")

TABLE = """level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext
1\t1\t0\t0\t0\t0\t0\t0\t900\t300\t-1\t
5\t1\t1\t1\t1\t1\t40\t40\t90\t30\t96.1\tTotal
5\t1\t1\t1\t1\t2\t400\t41\t90\t30\t95.0\t"12.50
5\t1\t1\t1\t2\t1\t40\t110\t90\t30\t3.2\t~~
5\t1\t1\t1\t2\t2\t140\t110\t90\t30\t91\tEUR
"""


@pytest.fixture(scope="module")
def rapid() -> RapidOcr:
    return RapidOcr()


def test_a_scan_is_read_with_the_places_of_its_words(rapid: RapidOcr) -> None:
    image = scan(["Invoice 4711", "Total 12.50 EUR"], mode="P")
    document = read(saved(image, "PNG"), ocr=rapid)
    assert texts(document) == [["Invoice 4711", "Total 12.50 EUR"]]
    invoice, number = document.pages[0].lines[0].words
    assert (invoice.text, number.text) == ("Invoice", "4711")
    assert invoice.box.left < 0.06 < invoice.box.right < number.box.left < 0.25
    assert invoice.box.top < 0.2 < invoice.box.bottom
    assert document.facts["ocr"] == "rapidocr"


def test_a_pdf_of_text_and_scans_is_read_as_one(rapid: RapidOcr) -> None:
    """F11."""
    file = pdf(written((72, 700, "A page of text")), pictured(scan(["Scanned words"], size=(595, 842))))
    document = read(file, ocr=rapid)
    assert texts(document) == [["A page of text"], ["Scanned words"]]
    assert [page.scanned for page in document.pages] == [False, True]


def test_an_empty_page_has_no_lines_and_one_that_the_engine_gave_up_is_an_error(rapid: RapidOcr) -> None:
    """Its answer is the same for both. The engine is made to fail where it would eat its own error."""
    assert rapid.read(scan([])) == ()
    engine: Any = rapid._engine
    engine.text_rec, kept = FailingStep(), engine.text_rec
    try:
        with pytest.raises(OcrFailed):
            rapid.read(scan(["Invoice 4711"]))
    finally:
        engine.text_rec = kept
    assert [line.text for line in rapid.read(scan(["Invoice 4711"]))] == ["Invoice 4711"]


class FailingStep:
    """A step of the engine as it is when it fails."""

    def __call__(self, *given: Any, **options: Any) -> Any:
        from rapidocr.main import RapidOCRError

        raise RapidOCRError("no")


def test_words_of_a_line_share_its_place_by_their_letters() -> None:
    one, other = split_words("ab  cdef", 100, 10, 180, 30, (200, 100))
    assert (one.word.text, one.left, one.right) == ("ab", 100, 120)
    assert (other.word.text, other.left, other.right) == ("cdef", 140, 180)
    assert (other.word.box.left, other.word.box.top, other.word.box.right, other.word.box.bottom) == (
        0.7,
        0.1,
        0.9,
        0.3,
    )


def test_the_table_of_tesseract_becomes_words_and_what_it_is_unsure_of_goes() -> None:
    total, amount, euro = spots_of(TABLE, (900, 300))
    assert [one.word.text for one in (total, amount, euro)] == ["Total", '"12.50', "EUR"]
    assert (total.left, total.top, total.right, total.bottom) == (40, 40, 130, 70)
    assert euro.word.box.left == pytest.approx(140 / 900, abs=1e-5)


def program(folder: Path, script: str) -> str:
    """Stands for tesseract where it is not installed."""
    file = folder / "tesseract"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return str(file)


def test_tesseract_is_asked_in_the_languages_that_are_installed(tmp_path: Path) -> None:
    table = tmp_path / "table.tsv"
    table.write_text(TABLE)
    languages = "printf 'List of available languages (2):\\neng\\ndeu\\nosd\\n'"
    reading = f'cat >/dev/null; echo "$4" >"{tmp_path}/asked"; cat "{table}"'
    script = f'if [ "$1" = --list-langs ]; then {languages}; else {reading}; fi'
    engine = Tesseract(program(tmp_path, script))
    assert [line.text for line in engine.read(scan(["Total"]))] == ['Total\t"12.50', "EUR"]
    assert (tmp_path / "asked").read_text() == "eng+deu\n"


def test_a_tesseract_that_fails_or_hangs_or_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OcrFailed):
        Tesseract(program(tmp_path, "exit 1")).read(scan(["Total"]))
    with pytest.raises(OcrFailed):
        Tesseract(str(tmp_path / "missing")).read(scan(["Total"]))
    with pytest.raises(ReadingTimedOut):
        Tesseract(program(tmp_path, "exec sleep 60"), seconds=0.1).read(scan(["Total"]))


@pytest.mark.skipif(not Tesseract.installed(), reason="tesseract is not installed")
def test_a_scan_is_read_by_tesseract() -> None:
    assert texts(read(saved(scan(["Invoice 4711"]), "PNG"), ocr=Tesseract())) == [["Invoice 4711"]]


def test_engines_are_chosen_by_name_and_by_what_is_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert choose("off") is None
    assert isinstance(choose("auto"), RapidOcr)
    assert isinstance(choose("rapidocr"), RapidOcr)
    with pytest.raises(LookupError, match="tesseract is not installed"):
        choose("tesseract")
    program(tmp_path, "exit 0")
    assert isinstance(choose("auto"), Tesseract)


def test_an_image_in_rgb_is_given_in_the_order_that_the_engine_expects(rapid: RapidOcr) -> None:
    red = scan([], size=(64, 64))
    red.paste((255, 0, 0), (0, 0, 64, 64))
    seen: list[Any] = []

    class Engine:
        def __call__(self, pixels: Any) -> None:
            seen.append(np.array(pixels))

    engine = RapidOcr()
    engine._engine = Engine()
    assert engine.read(red) == ()
    assert seen[0][0, 0].tolist() == [0, 0, 255]
