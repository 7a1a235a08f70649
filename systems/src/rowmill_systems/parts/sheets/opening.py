"""Open the file that a command was given, and understand its delimiter."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from rowmill_systems.parts.sheets.errors import BadSheet

DELIMITERS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|"}


@contextmanager
def opened(path: Path | None) -> Iterator[BinaryIO]:
    """Open a file that can be read several times. Standard input (None) is copied to a temporary file."""
    if path is None:
        with tempfile.TemporaryFile() as kept:
            shutil.copyfileobj(sys.stdin.buffer, kept)
            kept.flush()  # its size and time must not change from here on
            yield kept
        return
    try:
        if not path.is_file():
            raise BadSheet("it is not there, or no file. For standard input, write -")
        with path.open("rb") as file:
            yield file
    except PermissionError:
        raise BadSheet("it can't be read") from None


def delimiter_of(option: str | None) -> str | None:
    """Return the sign that an option names, as "tab" or ";". None stays None: it is detected."""
    delimiter = DELIMITERS.get(option or "", option)
    if delimiter is not None and (len(delimiter) != 1 or delimiter in "\r\n\"' "):
        raise BadSheet("--delimiter is one sign: ',', ';', '|' or tab")
    return delimiter
