"""A CSV file as people have it: whichever sign parts its cells, whichever program wrote it."""

import csv
import io
import os
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO, TextIO

from rowmill_systems.entities.sheets.bytes import look_at
from rowmill_systems.entities.sheets.delimiters import SAID, delimiter_of
from rowmill_systems.entities.sheets.errors import BadSheet

START = 256 * 1024
LONGEST_CELL = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Row:
    line: int
    """Where it begins."""
    cells: list[str]
    """As many as there are columns."""


class Sheet:
    """Read from its start as often as wanted, row by row: it may be larger than memory."""

    def __init__(self, file: BinaryIO, delimiter: str | None = None) -> None:
        self._file = file
        found = look_at(file)
        self.encoding, self.digest, self.from_spreadsheet = found.encoding, found.digest, found.from_spreadsheet
        self._stamp = self._changed_at()
        with self._text() as text:
            start = text.read(START)
            whole = not text.read(1)
        said = SAID.match(start)
        self._skipped = 1 if said else 0
        self.line_end = "\r\n" if "\r\n" in start else "\n"
        rest = start[said.end() :] if said else start
        self.delimiter = delimiter or (said[1] if said else delimiter_of(rest, whole=whole))
        self.header = self._header()

    def rows(self) -> Iterator[Row]:
        """Without lines that are empty. Cells that are missing at the end of a row are empty."""
        columns = len(self.header)
        for line, cells in islice(self._records(), 1, None):
            if any(cells[columns:]):
                raise BadSheet(
                    f"line {line} has {len(cells)} cells, and the first line {columns}. Look for a quote that is "
                    "missing, or say which sign parts the cells: --delimiter ';'"
                )
            yield Row(line, cells[:columns] + [""] * (columns - len(cells)))

    def check_unchanged(self) -> None:
        """What was read once must be what is read again."""
        if self._changed_at() != self._stamp:
            raise BadSheet("it was changed meanwhile. Run the command again")

    def _header(self) -> list[str]:
        with closing(self._records()) as records:
            _, header = next(records, (1, []))
        if not any(cell.strip() for cell in header):
            raise BadSheet("it is empty. Its first line has to name the columns")
        return header

    def _records(self) -> Generator[tuple[int, list[str]], None, None]:
        csv.field_size_limit(LONGEST_CELL)
        with self._text() as text:
            for _ in range(self._skipped):
                text.readline()
            reader = csv.reader(text, delimiter=self.delimiter, strict=True)
            line = 1
            try:
                for cells in reader:
                    if cells:
                        yield line + self._skipped, cells
                    line = reader.line_num + 1
            except csv.Error:
                raise BadSheet(
                    f"line {line + self._skipped} is not CSV. Look for a quote that is not closed, or not doubled "
                    "within a cell"
                ) from None

    @contextmanager
    def _text(self) -> Iterator[TextIO]:
        self._file.seek(0)
        text = io.TextIOWrapper(self._file, encoding=self.encoding, newline="")
        try:
            yield text
        finally:
            text.detach()

    def _changed_at(self) -> tuple[int, int]:
        found = os.fstat(self._file.fileno())
        return found.st_mtime_ns, found.st_size
