"""What becomes of a document does not depend on those that the same reader has read before."""

import random
import zlib
from collections.abc import AsyncIterator
from functools import cache

import pytest

import rowmill as rm
from rowmill_systems.parts.documents.limits import MB, DocumentLimits
from rowmill_systems.parts.documents.reader import Reader
from systems.tests.parts.documents.files import flate_bomb, pdf, pdf_of_stream, saved, scan, written

LIMITS = DocumentLimits(memory=300 * MB, page_seconds=300)
"""Enough for each of these documents alone. After a scan, the OCR engine keeps two thirds of it."""


def roomy(megabytes: int) -> bytes:
    """A PDF that is read well, and takes a parser some times so many megabytes for a moment."""
    content = b"BT /F 12 Tf 72 700 Td (Readable after all) Tj ET" + b" " * megabytes * MB
    return pdf_of_stream(zlib.compress(content, 1))


@cache
def documents() -> dict[str, bytes]:
    """The files by name. They take a second to make, and only the process that runs these tests makes them."""
    return {
        "text.pdf": pdf(written((72, 700, "Some text here"))),
        "scan.png": saved(scan(["Invoice 4711"], size=(400, 120)), "PNG"),
        "roomy.pdf": roomy(60),
        "notes.txt": b"total: 12",
        "broken.pdf": b"%PDF-1.7 nothing",
        "locked.docx": bytes.fromhex("d0cf11e0a1b11ae1") + "EncryptedPackage".encode("utf-16-le"),
        "bomb.pdf": pdf_of_stream(flate_bomb(400)),
    }


OUTCOMES = {
    "text.pdf": "Some text here",
    "scan.png": "Invoice 4711",
    "roomy.pdf": "Readable after all",
    "notes.txt": "total: 12",
    "broken.pdf": "corrupt",
    "locked.docx": "encrypted",
    "bomb.pdf": "too_large",
}


@pytest.fixture
async def reader() -> AsyncIterator[Reader]:
    """One that is never replaced for what it keeps, so that history has its full weight."""
    async with Reader(LIMITS, ocr="rapidocr", held_each=2**40) as one:
        yield one


async def outcome(reader: Reader, name: str) -> str:
    """The text of a document, or the code of its failure."""
    try:
        return (await reader.read(documents()[name], filename=name, media_type=None)).text.strip()
    except rm.errors.WorkError as error:
        return error.code


async def test_a_document_that_fails_for_want_of_memory_in_a_used_process_is_read_in_a_fresh_one(
    reader: Reader,
) -> None:
    assert await outcome(reader, "scan.png") == "Invoice 4711"
    used = reader.pid
    assert await outcome(reader, "roomy.pdf") == "Readable after all"
    assert reader.pid not in (None, used), "the used one had no room for it"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(2))
async def test_the_outcomes_are_the_same_in_every_order(reader: Reader, seed: int) -> None:
    """F5: a code is about the document, not about those before it."""
    names = [*OUTCOMES, "scan.png", "roomy.pdf", "text.pdf"]
    random.Random(seed).shuffle(names)
    assert [(name, await outcome(reader, name)) for name in names] == [(name, OUTCOMES[name]) for name in names]
