"""Read a CSV file whose lines stand for themselves: a bad one is reported, and the others go on."""

import csv
import io
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import BinaryIO, TextIO

from rowmill_systems.parts.sheets.sheet import START, Row, encoding_of
from rowmill_systems.parts.texts import detect_delimiter

LONGEST_LINE = 16 * 1024 * 1024
"""Characters of a line, so that a file without line ends does not fill the memory."""
MOST_LINE_ENDS = 10
"""Of a cell in quotes."""
LOST = "\ufffd"
"""Stands for bytes that are not in the encoding of the file."""


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is no CSV."""

    line: int
    code: str
    message: str
    """What to do. Without the line's contents."""


def read_lines(file: BinaryIO, refuse: Callable[[BadLine], None]) -> Generator[Row, None, None]:
    """Yield the lines that are not empty, the header among them, with as many cells as each has; pass bad ones to
    `refuse`.

    The memory that it takes does not depend on the size of the file. Bytes that are not in its encoding are read as
    `LOST`. A cell in quotes may have some line ends: Python's reader would take all lines after a quote that is not
    closed for one cell; here, only the line with the quote is lost. Raises BadSheet if the file is no text. Close it if
    you leave early: it lets go of the file then.
    """
    encoding = encoding_of(file)
    file.seek(0)
    text = io.TextIOWrapper(file, encoding=encoding, errors="replace", newline="")
    try:
        start = text.read(START)
        whole = not text.read(1)
        text.seek(0)
        yield from _records(text, detect_delimiter(start, header=True, cut=not whole), refuse)
    finally:
        text.detach()


def _records(text: TextIO, delimiter: str, refuse: Callable[[BadLine], None]) -> Iterator[Row]:
    csv.field_size_limit(LONGEST_LINE)  # a long cell is reported by its line, rather than by an error of the reader
    source = enumerate(_physical_lines(text), 1)
    waiting: deque[tuple[int, str]] = deque()
    while True:
        line, content = waiting.popleft() if waiting else next(source, (0, ""))
        if not content:
            return
        if len(content) >= LONGEST_LINE:
            refuse(BadLine(line, "line_too_long", f"it is longer than {LONGEST_LINE:,} characters"))
            continue
        taken, quotes = 0, content.count('"')
        while quotes % 2 and taken < MOST_LINE_ENDS:
            if taken == len(waiting):
                following = next(source, None)
                if following is None:
                    break
                waiting.append(following)
            quotes += waiting[taken][1].count('"')
            taken += 1
        if quotes % 2:
            taken = 0
        whole = content + "".join(waiting.popleft()[1] for _ in range(taken))
        try:
            cells = next(csv.reader(io.StringIO(whole, newline=""), delimiter=delimiter, strict=True), [])
        except csv.Error:
            refuse(BadLine(line, "not_csv", "look for a quote that is not closed, or not doubled in a cell"))
            continue
        if any(cell.strip() for cell in cells):
            yield Row(line, cells)


def _physical_lines(text: TextIO) -> Iterator[str]:
    """Yield lines with their ends. Of a line that is too long, only the start is kept."""
    while line := text.readline(LONGEST_LINE):
        yield line
        while len(line) == LONGEST_LINE and not line.endswith(("\n", "\r")):
            line = text.readline(LONGEST_LINE)
