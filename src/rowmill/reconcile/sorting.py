"""External sort: sorted runs in temporary files, merged.

The files have no names, so a process that dies leaves none behind.
"""

import heapq
import json
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from operator import itemgetter
from typing import IO, Any
from uuid import UUID

from rowmill.model.errors import InventoryError

# Items are stored as lines of JSON in a temporary file. Not as pickles: reading them back can run no code.

MARK = "\x00"
"""The key under which the type of a value is stored, for values that JSON can't represent."""
READ: dict[str, Callable[[Any], Any]] = {
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "timedelta": lambda text: timedelta(seconds=float(text)),
    "Decimal": Decimal,
    "UUID": UUID,
    "bytes": b64decode,
}


def packed(values: list[Any]) -> bytes:
    """Encode values as one line."""
    return json.dumps(values, default=_encode, ensure_ascii=True).encode() + b"\n"


def unpacked(line: bytes) -> list[Any]:
    found: list[Any] = json.loads(line, object_hook=_decode)
    return found


def _encode(value: Any) -> Any:
    match value:
        case datetime() | date() | time():
            text = value.isoformat()
        case timedelta():
            text = repr(value.total_seconds())
        case Decimal() | UUID():
            text = str(value)
        case bytes() | bytearray() | memoryview():
            return {MARK: "bytes", "is": b64encode(value).decode()}
        case Mapping():
            return dict(value)
        case _:
            raise InventoryError(
                f"facts may be numbers, text, times, UUIDs, bytes, lists and mappings, not {type(value).__name__}"
            )
    return {MARK: next(kind.__name__ for kind in type(value).__mro__ if kind.__name__ in READ), "is": text}


def _decode(found: dict[str, Any]) -> Any:
    kind = found.get(MARK)
    return READ[kind](found["is"]) if kind in READ and len(found) == 2 else found


RUN = 50_000
"""Entries that are sorted in memory."""
FAN = 32
"""Runs that are merged at once, to limit the number of open files."""
CHUNK = 500

Entry = tuple[Any, ...]
"""Sorted by its first element only."""
BY_KEY = itemgetter(0)


class SortedRuns:
    """Sorts entries by key, on disk if they are many. The sort is stable."""

    def __init__(self, run: int = RUN, fan: int = FAN) -> None:
        self._run, self._fan = run, fan
        self._held: list[Entry] = []
        self._levels: list[list[IO[bytes]]] = []

    def add(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self._held.append(entry)
            if len(self._held) >= self._run:
                self._flush()

    def __iter__(self) -> Iterator[Entry]:
        """Yield the sorted entries. Works once: the runs are used up."""
        self._held.sort(key=BY_KEY)
        older = [run for level in reversed(self._levels) for run in level]
        try:
            yield from heapq.merge(*map(read, older), self._held, key=BY_KEY)
        finally:
            self.close()

    def close(self) -> None:
        for level in self._levels:
            for run in level:
                run.close()
        self._levels, self._held = [], []

    def _flush(self) -> None:
        self._held.sort(key=BY_KEY)
        self._put(0, written(self._held))
        self._held = []

    def _put(self, depth: int, run: IO[bytes]) -> None:
        if depth == len(self._levels):
            self._levels.append([])
        level = self._levels[depth]
        level.append(run)
        if len(level) >= self._fan:
            merged = written(heapq.merge(*map(read, level), key=BY_KEY))
            for one in level:
                one.close()
            self._levels[depth] = []
            self._put(depth + 1, merged)


def written(entries: Iterable[Any]) -> IO[bytes]:
    """Write entries to a temporary file."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 closed by whoever reads it
    chunk: list[Any] = []
    for entry in entries:
        chunk.append(entry)
        if len(chunk) >= CHUNK:
            file.write(packed(chunk))
            chunk = []
    if chunk:
        file.write(packed(chunk))
    return file


def read(file: IO[bytes]) -> Iterator[Entry]:
    """Yield the entries of such a file."""
    file.seek(0)
    for line in file:
        yield from map(tuple, unpacked(line))
