"""Output: one JSON document for programs, tables for people. Colours and rules only on a terminal."""

import json as jsonlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import Enum
from typing import Any, Protocol

from rowmill.model import errors

Text = str | Callable[[], str | None] | None


def emit(data: Any, json: bool, text: Text = None) -> bool:
    """Print a result: `data` as one JSON document, or `text` for people. A callable prints by itself, or returns the
    text.

    Return False if the reader is gone, as in `rowmill list | head -1`. That is not an error.
    """
    try:
        if json:
            print(as_json(data))
        else:
            shown = text() if callable(text) else text
            if shown is not None:
                print(printable(shown))
        sys.stdout.flush()
    except BrokenPipeError:
        close_stdout()
        return False
    return True


def close_stdout() -> None:
    """Redirect stdout to /dev/null after its reader is gone. Otherwise Python would fail on a last flush when it
    exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def as_json(data: Any) -> str:
    """Encode as one line of JSON. Times are ISO 8601, durations are seconds, keys become text. Characters outside the
    encoding of stdout are escaped."""
    found = plain(data)
    text = jsonlib.dumps(found, ensure_ascii=False, allow_nan=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return jsonlib.dumps(found, allow_nan=False)
    return text


def plain(value: Any) -> Any:
    """Convert a value to what JSON can represent."""
    match value:
        case Enum():
            return plain(value.value)
        case None | bool() | int() | str():
            return value
        case float():
            return value if value == value and abs(value) != float("inf") else None
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case bytes() | bytearray() | memoryview():
            return f"<{len(value)} bytes>"
        case Mapping():
            return {str(plain(key)): plain(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(item) for item in value]
        case _ if is_dataclass(value) and not isinstance(value, type):
            return plain(asdict(value))
        case _:
            return str(value)


def table(heads: Sequence[str], rows: Sequence[Sequence[Any]], title: str | None = None) -> None:
    """Print a table: with Rich on a terminal, in plain aligned columns otherwise."""
    cells = [["" if cell is None else one_line(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        from rich import box
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text as RichText

        # As Text: a string would be read as Rich's markup, and [brackets] in it dropped.
        heading = None if title is None else RichText(one_line(title))
        shown = Table(title=heading, box=box.SIMPLE_HEAD, title_justify="left")
        for head in heads:
            shown.add_column(RichText(head), overflow="fold")  # a key that is cut off can't be copied
        for row in cells:
            shown.add_row(*(RichText(cell) for cell in row))
        Console().print(shown)
        return
    if title:
        print(one_line(title))
    widths = [max(len(head), *(len(row[n]) for row in cells), 0) for n, head in enumerate(heads)]
    for row in [list(heads), *cells]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def one_line(value: Any) -> str:
    """Return a value on one line, without control characters for the terminal."""
    return errors.one_line(str(plain(value)))


def printable(text: str) -> str:
    """Replace control characters in text. Keys and words come from the table and may contain any character."""
    return "\n".join(map(errors.one_line, text.split("\n")))


def say(text: str) -> None:
    """Print a remark on stderr, so that stdout holds only the result."""
    print(printable(text), file=sys.stderr)


class ProgressCallback(Protocol):
    """Called with the number of rows done, and what the work is waiting for."""

    def __call__(self, done: int, note: str = "") -> None: ...


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[ProgressCallback]:
    """Show progress on stderr: a bar on a terminal, otherwise each note once. Call the result with the number of rows
    done."""
    if not sys.stderr.isatty():
        shown = set[str]()

        def remark(done: int, note: str = "") -> None:
            if note and note not in shown:
                shown.add(note)
                say(note)

        yield remark
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(escape(what), total=total)

        def move(done: int, note: str = "") -> None:
            bar.update(task, completed=done, description=escape(f"{what}, {printable(note)}" if note else what))

        yield move


def clock(at: datetime | None) -> str:
    """Format a time in UTC; None as empty text."""
    return "" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def duration(seconds: float | None) -> str:
    """Format a duration: 45 s, 12 min, 3 h, 5 d."""
    if seconds is None:
        return ""
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if abs(seconds) >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
