"""Start, ask, watch and kill a process that reads documents."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any, Self

from rowmill_systems.parts.documents import confine, errors
from rowmill_systems.parts.documents.errors import OutOfMemory, ReaderDied, ReadingTimedOut
from rowmill_systems.parts.documents.frames import Frame, pack, receive_async
from rowmill_systems.parts.documents.limits import MB, DocumentLimits

PROGRAM = "rowmill_systems.parts.documents.child"
START_SECONDS = 60.0
LOOK_SECONDS = 0.02
CRASHES = (signal.SIGABRT, signal.SIGTRAP, signal.SIGILL, signal.SIGSEGV, signal.SIGBUS)
NEARLY = 0.6
"""A process that crashes above this share of its memory was refused memory.

Parsers ask for twice of what they have, so that they seldom come closer.
"""

STRANGE = "the process that reads answered something else"

Progress = Callable[[int, int], None]


class Cause(Exception):
    """What failed in the reading process: classes and lines of code, no texts."""


class ReadingProcess:
    """A process that reads documents.

    Whatever a document does to it, the caller gets an error of `parts.documents.errors`.
    """

    def __init__(self, process: asyncio.subprocess.Process, limits: DocumentLimits) -> None:
        self._process, self._limits = process, limits
        self._most = 32 * MB + 60 * limits.characters  # of an answer: a place takes about ten bytes a letter
        self.documents = 0
        self._peak = _Peak(process.pid)
        self._asked = False

    @classmethod
    async def start(cls, limits: DocumentLimits, ocr: str) -> Self:
        """Start an interpreter in a session of its own, so that signals for our group don't reach it."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", PROGRAM, str(os.getpid()),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True, env=confine.environment(os.environ),
        )  # fmt: skip
        started = cls(process, limits)
        try:
            async with asyncio.timeout(START_SECONDS):
                await started._send(Frame({"limits": asdict(limits), "ocr": ocr}))
                await started._receive()
        except BaseException as error:
            await started.kill()
            if isinstance(error, TimeoutError | OSError | EOFError | ValueError):
                raise ReaderDied("the process that reads did not start") from error
            raise
        return started

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    async def ask(self, request: Frame, progress: Progress | None) -> Frame:
        """Return the answer to a request. A process that did not answer properly is dead afterwards."""
        peak, self._asked = _Peak(self.pid), True
        self._peak = peak
        try:
            async with asyncio.timeout(self._limits.seconds):
                with peak.watched():
                    await self._send(request)
                    answer = await self._answer(progress)
            self.documents += 1
        except TimeoutError as error:
            await self.kill()
            limits = self._limits
            raise ReadingTimedOut(f"{limits.page_seconds:g} seconds a page, {limits.seconds:g} in all") from error
        except (EOFError, OSError) as error:
            await self.kill()
            raise self._died() from error
        except (ValueError, KeyError, TypeError) as error:
            await self.kill()
            raise ReaderDied(STRANGE) from error
        except BaseException:
            await self.kill()
            raise
        if answer.said.get("is") == "error":
            raise _error(answer.said)
        return answer

    async def _answer(self, progress: Progress | None) -> Frame:
        while True:
            async with asyncio.timeout(self._limits.page_seconds):
                frame = await self._receive()
            if frame.said.get("is") != "progress":
                return frame
            if progress is not None:
                progress(int(frame.said["page"]), int(frame.said["of"]))

    def _died(self) -> Exception:
        """Return the error for a process that ended.

        If it ran out of the memory that it may have, the file is too large, and a retry would cost as much again;
        otherwise the file may not be at fault.
        """
        ended = -(self._process.returncode or 0)
        if ended == signal.SIGXCPU:
            return ReadingTimedOut("seconds of CPU")
        if ended in CRASHES and self.short_of_memory:
            return OutOfMemory("memory")
        return ReaderDied(f"the process that read it ended by signal {ended}" if ended > 0 else "the process ended")

    async def _send(self, frame: Frame) -> None:
        assert self._process.stdin is not None
        for piece in pack(frame):
            self._process.stdin.write(piece)
        await self._process.stdin.drain()

    async def _receive(self) -> Frame:
        assert self._process.stdout is not None
        return await receive_async(self._process.stdout, most=self._most)

    @property
    def used(self) -> bool:
        """Whether it was asked for something before, so that a part of its memory is taken."""
        return self._asked

    @property
    def short_of_memory(self) -> bool:
        """Whether the last request brought it near its limit."""
        return self._peak.data >= NEARLY * self._limits.memory

    def held(self) -> int:
        """Return the bytes of data that it holds now, as its limit counts them; 0 where there is no /proc."""
        try:
            return data_of(self.pid)
        except OSError:
            return 0

    async def kill(self) -> None:
        """Kill it with all that it started. Idempotent."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        await asyncio.shield(self._process.wait())


def data_of(pid: int) -> int:
    """Return the data of a process in bytes, as RLIMIT_DATA counts it."""
    with open(f"/proc/{pid}/status") as file:
        return next((int(line.split()[1]) * 1024 for line in file if line.startswith("VmData:")), 0)


class _Peak:
    """Records the most memory that a process was seen to use. After its death the system can't tell any more."""

    def __init__(self, pid: int) -> None:
        self._pid, self.data = pid, 0

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        task = asyncio.create_task(self._watch(), name="watch a reading process")
        try:
            yield
        finally:
            task.cancel()

    async def _watch(self) -> None:
        with contextlib.suppress(OSError):  # it is gone, or this is no Linux
            while True:
                self.data = max(self.data, data_of(self._pid))
                await asyncio.sleep(LOOK_SECONDS)


def _error(said: dict[str, Any]) -> Exception:
    kind = getattr(errors, str(said.get("class")), None)
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        return ReaderDied(STRANGE)
    error = kind(str(said.get("text"))[:500])
    if said.get("cause"):
        error.__cause__ = Cause(str(said["cause"])[:1000])
    return error
