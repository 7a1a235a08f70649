"""Parse feeds in processes beside the event loop.

A feed of six megabytes takes two seconds of Python, and one that is made for it takes minutes: in a thread, each of
them would take the interpreter away from the API, and nobody could end it.
"""

import asyncio
import json
import os
import signal
import sys
from contextlib import suppress
from datetime import datetime
from typing import Any

import rowmill as rm
from rowmill_systems.articles.feeds.entries import ParsedFeed
from rowmill_systems.articles.feeds.parser_frames import LENGTHS, entry_from_json, feed_from_json
from rowmill_systems.articles.feeds.parsing import NotAFeed
from rowmill_systems.parts.closing import AsyncCloseable

PROGRAM = "rowmill_systems.articles.feeds.parser_child"
MB = 1024 * 1024
MEMORY = 1024 * MB
"""Bytes of data of a parsing process. A feed of ten megabytes takes about 300."""
LONGEST_FRAME = 16 * MB
"""One entry. Its texts are bounded."""
PARSE_SECONDS = 15.0
"""For one feed. Ten megabytes take about four."""
PROCESSES = 2
"""More than one, so that a feed that takes all of its seconds does not hold up the others."""
FEEDS_EACH = 500
"""A process is replaced after so many feeds: what a parser leaks goes with it."""
KEPT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "SYSTEMROOT", "TMPDIR")
"""Variables of the environment that a process gets: no addresses of databases, no keys."""


class ParsingFailed(rm.TransientError):
    """A feed that can't be parsed in the time or memory that it may take, or that crashes the parser."""

    code = "parsing_crashed"


class FeedParser(AsyncCloseable):
    """Parses feeds in up to `processes` processes, which are started when they are needed and die with this one."""

    def __init__(self, *, processes: int = PROCESSES, seconds: float = PARSE_SECONDS) -> None:
        self._seconds = seconds
        self._turns = asyncio.Semaphore(processes)
        self._idle: list[_ParserProcess] = []
        self._closed = False

    async def parse(
        self, body: bytes, *, url: str, content_type: str | None, max_entries: int, now: datetime
    ) -> ParsedFeed:
        """Return what a feed says. Raises NotAFeed, or ParsingFailed after the time limit."""
        asked = {"url": url, "content_type": content_type, "max_entries": max_entries, "now": now.isoformat()}
        async with self._turns:
            process = self._idle.pop() if self._idle else await _ParserProcess.start()
            try:
                async with asyncio.timeout(self._seconds):
                    return await process.ask(asked, body)
            except TimeoutError:
                raise ParsingFailed(f"it takes more than {self._seconds:g} seconds", code="parsing_timed_out") from None
            except (EOFError, OSError):
                raise ParsingFailed("the process that parsed it ended") from None
            except (KeyError, TypeError, ValueError):
                raise ParsingFailed("the process that parsed it sent something else") from None
            finally:
                # One that is in the middle of an answer, as after a cancellation, would answer the next feed with it.
                if process.answered and process.feeds < FEEDS_EACH and not self._closed:
                    self._idle.append(process)
                else:
                    await process.kill()

    async def close(self) -> None:
        """End the processes. Idempotent."""
        self._closed = True
        while self._idle:
            await self._idle.pop().kill()


class _ParserProcess:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.feeds = 0
        self.answered = False
        """Whether its last answer was read to the end."""

    @classmethod
    async def start(cls) -> "_ParserProcess":
        """Start an interpreter in a session of its own, so that signals for our group don't reach it."""
        environment = {name: os.environ[name] for name in KEPT if name in os.environ}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        return cls(
            await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-m", PROGRAM, str(os.getpid()), str(MEMORY),
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True, env=environment,
            )
        )  # fmt: skip

    async def ask(self, asked: dict[str, Any], body: bytes) -> ParsedFeed:
        """Return the answer. Raises NotAFeed, ParsingFailed, and more if the process is not what it was."""
        assert self._process.stdin is not None
        self.feeds, self.answered = self.feeds + 1, False
        said = json.dumps(asked).encode()
        for piece in (LENGTHS.pack(len(said), len(body)), said, body):
            self._process.stdin.write(piece)
        await self._process.stdin.drain()
        answer = await self._receive()
        entries = []
        for _ in range(int(answer.get("entries", 0))):
            entries.append(entry_from_json(await self._receive()))
            await asyncio.sleep(0)  # others have their turn, also if all of it is here already
        self.answered = True
        if "not_a_feed" in answer:
            raise NotAFeed(str(answer["not_a_feed"])[:200], is_page=bool(answer.get("is_page")))
        if "crashed" in answer:
            raise ParsingFailed(f"the parser raised {str(answer['crashed'])[:50]}")
        return feed_from_json(answer["feed"], tuple(entries))

    async def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        length, _ = LENGTHS.unpack(await self._process.stdout.readexactly(LENGTHS.size))
        if length > LONGEST_FRAME:
            raise ValueError("a frame that is too long")
        found = json.loads(await self._process.stdout.readexactly(length))
        if not isinstance(found, dict):
            raise ValueError("a frame that says nothing")
        return found

    async def kill(self) -> None:
        """End the process. Idempotent."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGKILL)
        await asyncio.shield(self._process.wait())
