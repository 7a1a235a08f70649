"""Read a CSV file in any encoding and with any delimiter."""

import codecs
import csv
import hashlib
import io
import os
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO, TextIO

from rowmill_systems.parts.sheets.errors import BadSheet
from rowmill_systems.parts.texts import detect_delimiter, detect_encoding, looks_like_text

START = 256 * 1024
LONGEST_CELL = 1024 * 1024
CHUNK = 1024 * 1024
SPREADSHEETS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")
"""How files of Excel and LibreOffice begin."""
SEPARATOR_LINE = re.compile(r"sep=([,;\t|:])\r?\n", re.IGNORECASE)
"""A first line by which spreadsheets name the delimiter."""


@dataclass(frozen=True, slots=True)
class Row:
    line: int
    """Where it begins."""
    cells: list[str]
    """As many as there are columns."""


class Sheet:
    """A CSV file that may be larger than memory. It can be read several times."""

    def __init__(self, file: BinaryIO, delimiter: str | None = None) -> None:
        self._file = file
        self._stamp = self._changed_at()
        self.encoding, self.digest = encoding_and_digest(file)
        self.from_spreadsheet = self.encoding != "utf-8"
        """It has a byte order mark, or the encoding of an older program: that program reads it best with a mark."""
        with self._text() as text:
            start = text.read(START)
            whole = not text.read(1)
        named = SEPARATOR_LINE.match(start)
        self._skipped = 1 if named else 0
        self.line_end = "\r\n" if "\r\n" in start else "\n"
        found = named[1] if named else detect_delimiter(start, header=True, cut=not whole)
        self.delimiter = delimiter or found
        self.header = self._header()

    def rows(self, skipped: Callable[[int], None] | None = None) -> Generator[Row, None, None]:
        """Yield rows, without empty lines. Missing cells at the end of a row are empty.

        A row with more cells than columns raises BadSheet; if `skipped` is given, it is called with the line of that
        row instead, and the row is left out. Close the generator if you don't read it to its end.
        """
        columns = len(self.header)
        for line, cells in islice(self._records(), 1, None):
            if any(cells[columns:]):
                if skipped is not None:
                    skipped(line)
                    continue
                raise BadSheet(
                    f"line {line} has {len(cells)} cells, and the first line {columns}. Look for a quote that is "
                    "missing, or say which sign parts the cells: --delimiter ';'"
                )
            yield Row(line, cells[:columns] + [""] * (columns - len(cells)))

    def check_unchanged(self) -> None:
        """Raise BadSheet if the file was changed since it was opened."""
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


def encoding_of(file: BinaryIO) -> str:
    """Return the encoding that a file seems to be in. Raises BadSheet if it is no text."""
    file.seek(0)
    start = file.read(65536)
    if start.startswith(SPREADSHEETS):
        raise BadSheet("it is a spreadsheet. Save it as CSV, in UTF-8")
    encoding = detect_encoding(file)
    if encoding != "utf-8" and not looks_like_text(start):  # a cell of valid UTF-8 may hold a NUL
        raise BadSheet("it is not text. Save the table as CSV, in UTF-8")
    return encoding


def encoding_and_digest(file: BinaryIO) -> tuple[str, str]:
    """Return the encoding that a file is in, from its first byte to its last, and a hash of its bytes."""
    encoding = encoding_of(file)
    decoder, digest = codecs.getincrementaldecoder(encoding)(), hashlib.sha256()
    file.seek(0)
    try:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            decoder.decode(chunk)
        decoder.decode(b"", True)
    except UnicodeDecodeError:
        raise BadSheet(f"it looks like {encoding}, and has bytes that are not. Save it as UTF-8") from None
    return encoding, digest.hexdigest()


def place_of(header: Sequence[str], wanted: str) -> int:
    """Return the place of a column by its name: as it is written; otherwise whatever the case and the spaces around.

    Raises BadSheet if there is no such column, or several.
    """
    for same in (str, lambda name: name.strip().casefold()):
        places = [place for place, name in enumerate(header) if same(name) == same(wanted)]
        if len(places) > 1:
            raise BadSheet(f"it has several columns {wanted}. Give them different names")
        if places:
            return places[0]
    raise BadSheet(f"it has no column {wanted}. It has: {', '.join(name.strip() for name in header)}")
