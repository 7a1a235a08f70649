"""The process that reads: whatever becomes of it, its parent gets an answer, and nothing is left behind."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from rowmill_systems.parts.documents.document import Kind
from rowmill_systems.parts.documents.errors import (  # fmt: skip
    CorruptFile,
    EmptyFile,
    EncryptedFile,
    FileTooLarge,
    ReaderDied,
    ReadingTimedOut,
    UnsupportedFile,
)
from rowmill_systems.parts.documents.limits import MB, DocumentLimits
from rowmill_systems.parts.documents.process import Cause
from rowmill_systems.parts.documents.reader import Reader
from systems.tests.parts.documents.files import flate_bomb, pdf, pdf_of_stream, read, saved, scan, written

ADMIN, CAPABILITIES = 1 << 21, Path("/proc/self/status")
PAGES = pdf(*[written((72, 700, "Some text here"))] * 3)
SLOW = pdf_of_stream(b"1 1 m 2 2 l S\n" * 3_000_000, filters=b"")
"""Takes a parser some seconds, and it says nothing meanwhile."""


@pytest.fixture
async def reader() -> AsyncIterator[Reader]:
    async with Reader(DocumentLimits(seconds=60, memory=300 * MB), ocr="off") as one:
        yield one


async def ask(reader: Reader, file: bytes = PAGES, filename: str = "a.pdf") -> int:
    return len((await reader.read(file, filename=filename, media_type=None)).pages)


def idle(reader: Reader) -> bool:
    """Whether it has no process just now."""
    return reader.pid is None


async def begun(reader: Reader) -> tuple[asyncio.Task[object], psutil.Process]:
    """A document that is being read just now, and by whom."""
    began = asyncio.Event()
    task: asyncio.Task[object] = asyncio.create_task(
        reader.read(SLOW, filename="a.pdf", media_type=None, progress=lambda page, of_pages: began.set())
    )
    await began.wait()
    return task, psutil.Process(reader.pid)


async def test_what_the_process_reads_is_what_the_function_reads(reader: Reader) -> None:
    told: list[tuple[int, int]] = []
    found = await reader.read(
        PAGES, filename="a.pdf", media_type="application/pdf", progress=lambda page, of: told.append((page, of))
    )
    assert found == read(PAGES, "a.pdf")
    assert told == [(1, 3), (2, 3), (3, 3)]


async def test_errors_come_back_as_they_are_with_their_cause(reader: Reader) -> None:
    """F5."""
    for file, error in (
        (b"", EmptyFile), (b"%PDF-1.7 nothing", CorruptFile), (b"\0\1\2", UnsupportedFile),
        (b"x" * 51 * MB, FileTooLarge),
        (bytes.fromhex("d0cf11e0a1b11ae1") + "EncryptedPackage".encode("utf-16-le"), EncryptedFile),
    ):  # fmt: skip
        with pytest.raises(error) as raised:
            await ask(reader, file)
        assert raised.value.code == error.code
    with pytest.raises(CorruptFile, match="a broken PDF") as corrupt:
        await ask(reader, b"%PDF-1.7 secret words")
    assert isinstance(corrupt.value.__cause__, Cause)
    assert "PdfiumError" in str(corrupt.value.__cause__)
    assert "secret" not in str(corrupt.value.__cause__)


async def test_one_process_reads_all_and_calls_wait_for_each_other(reader: Reader) -> None:
    assert reader.pid is None
    await ask(reader)
    pid = reader.pid
    assert await asyncio.gather(*(ask(reader) for _ in range(5))) == [3] * 5
    assert reader.pid == pid


async def test_a_process_that_dies_is_an_error_that_may_be_tried_again_and_the_next_one_reads(reader: Reader) -> None:
    """F5."""
    asked, process = await begun(reader)
    process.kill()
    with pytest.raises(ReaderDied, match="signal 9"):
        await asked
    assert await ask(reader) == 3
    assert not process.is_running()


async def test_a_process_that_dies_between_documents_is_not_noticed(reader: Reader) -> None:
    await ask(reader)
    pid = reader.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    while not idle(reader):
        await asyncio.sleep(0.01)
    assert await ask(reader) == 3


@pytest.mark.parametrize(
    "limits", [DocumentLimits(seconds=0.5), DocumentLimits(page_seconds=0.5)], ids=["in all", "a page"]
)
async def test_a_document_that_takes_too_long_is_given_up_with_its_process(limits: DocumentLimits) -> None:
    """F5."""
    async with Reader(limits, ocr="off") as reader:
        with pytest.raises(ReadingTimedOut):
            await ask(reader, SLOW)
        assert reader.pid is None


async def test_a_document_that_fills_the_memory_is_too_large_for_ever(reader: Reader) -> None:
    """Here the parser dies of it."""
    with pytest.raises(FileTooLarge, match="memory"):
        await ask(reader, pdf_of_stream(flate_bomb(400)))
    assert await ask(reader) == 3


async def test_who_cancels_ends_the_work(reader: Reader) -> None:
    asked, process = await begun(reader)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert not process.is_running()
    assert await ask(reader) == 3


async def test_the_process_is_replaced_after_so_many_documents_or_so_much_memory() -> None:
    async with Reader(ocr="off", documents_each=2) as reader:
        await ask(reader)
        first = reader.pid
        await ask(reader)
        assert idle(reader)
        await ask(reader)
        assert reader.pid not in (None, first)
    async with Reader(ocr="off", held_each=MB) as reader:
        await ask(reader)
        assert reader.pid is None


async def test_nothing_is_left_after_close_and_nothing_starts_again() -> None:
    reader = Reader(ocr="off")
    asked, process = await begun(reader)
    await reader.close()
    await reader.close()
    with pytest.raises(ReaderDied):
        await asked
    assert not process.is_running()
    with pytest.raises(ReaderDied, match="closed"):
        await ask(reader)
    assert reader.pid is None


async def test_signals_for_the_group_do_not_end_the_process(reader: Reader) -> None:
    await ask(reader)
    assert reader.pid is not None
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(reader.pid, number)
    pid = reader.pid
    assert await ask(reader) == 3
    assert reader.pid == pid
    assert os.getpgid(pid) != os.getpgid(0)


PARENT = """
    import asyncio
    from rowmill_systems.parts.documents.reader import Reader
    async def main():
        async with Reader(ocr="off") as reader:
            await reader.read(b"text", filename="a.txt", media_type=None)
            print(reader.pid, flush=True)
            await asyncio.Event().wait()
    asyncio.run(main())
"""


def test_the_process_dies_with_a_parent_that_is_killed() -> None:
    """Also one that can't notice: it stands still, as in the middle of a document."""
    command = [sys.executable, "-c", textwrap.dedent(PARENT)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        child.suspend()
        parent.kill()
    try:
        child.wait(20)
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()


async def test_the_process_gives_up_its_rights(reader: Reader) -> None:
    await ask(reader)
    process = psutil.Process(reader.pid)
    assert process.rlimit(psutil.RLIMIT_DATA) == (300 * MB, 300 * MB)
    assert process.rlimit(psutil.RLIMIT_FSIZE) == (0, 0)
    assert process.rlimit(psutil.RLIMIT_CORE) == (0, 0)
    assert 60 < process.rlimit(psutil.RLIMIT_CPU)[0] < 300
    status = await asyncio.to_thread(Path(f"/proc/{process.pid}/status").read_text)
    assert "NoNewPrivs:\t1" in status


@pytest.mark.skipif(not ADMIN & int(CAPABILITIES.read_text().split("CapEff:")[1].split()[0], 16), reason="no rights")
async def test_the_process_has_no_network(reader: Reader) -> None:
    await ask(reader)
    assert os.readlink(f"/proc/{reader.pid}/ns/net") != os.readlink("/proc/self/ns/net")


async def test_the_process_knows_no_secrets_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROWMILL_DATABASE_URL", "postgresql://secret")
    async with Reader(ocr="off") as reader:
        await ask(reader)
        assert "ROWMILL_DATABASE_URL" not in psutil.Process(reader.pid).environ()


async def test_a_page_is_rendered_in_the_process(reader: Reader) -> None:
    assert (await reader.render(PAGES, Kind.PDF, 2, width=300)).startswith(b"\x89PNG")
    assert (await reader.render(saved(scan(["Text"]), "GIF"), Kind.IMAGE, 1)).startswith(b"\x89PNG")
    with pytest.raises(UnsupportedFile):
        await reader.render(PAGES, Kind.PDF, 4)
    assert await ask(reader) == 3


async def test_a_reader_for_an_engine_that_is_not_there_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LookupError):
        Reader(ocr="tesseract")
