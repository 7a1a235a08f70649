"""Names of files as strangers give them."""

import unicodedata
from pathlib import PurePosixPath

LONGEST_NAME = 255


def tidy_name(name: str) -> str:
    """Return the last part of a path, without characters that confuse a terminal or a file system."""
    last = PurePosixPath(name.replace("\\", "/")).name
    shown = printable(last)
    if len(shown) > LONGEST_NAME:
        stem, dot, suffix = shown.rpartition(".")
        shown = f"{stem[: LONGEST_NAME - 20]}{dot}{suffix[:19]}" if dot else shown[:LONGEST_NAME]
    return shown if shown.strip(".") else "unnamed"


def printable(text: str) -> str:
    """Remove control characters and lone surrogates, which not every database stores."""
    return "".join(letter for letter in text if unicodedata.category(letter)[0] != "C").strip()
