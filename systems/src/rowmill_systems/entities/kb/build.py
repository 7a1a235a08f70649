"""Makes a knowledge base of a file."""

import os
import sqlite3
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rowmill_systems.entities.kb.errors import BadKnowledgeBase
from rowmill_systems.entities.kb.writing import write


@dataclass(frozen=True, slots=True)
class BuildReport:
    things: int
    names: int
    """Names and aliases, those that are the same but for case, accents and punctuation counted once."""
    bytes: int
    """Of the file."""


def build(source: Path, target: Path, told: Callable[[int], None] | None = None) -> BuildReport:
    """Of JSON Lines or CSV, one file that `open_knowledge_base` opens.

    The target has its name once all of it is on the disk; who reads an older one meanwhile goes on with that.
    Whatever is wrong with the source raises BadKnowledgeBase, and leaves the target as it was.
    """
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise BadKnowledgeBase(
            f"{target.parent} can't be written to: {error.strerror}. Name another target."
        ) from error
    temporary = Path(name)
    try:
        connection = sqlite3.connect(temporary)
        try:
            connection.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")
            written = write(source, connection, target.stem, told)
        finally:
            connection.close()
        os.fsync(descriptor)
        temporary.chmod(0o644)
        temporary.replace(target)
    except OSError as error:
        raise BadKnowledgeBase(f"{error.filename or target}: {error.strerror}.") from error
    finally:
        os.close(descriptor)
        temporary.unlink(missing_ok=True)
    return BuildReport(written.things, written.names, target.stat().st_size)
