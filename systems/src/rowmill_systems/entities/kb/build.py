"""Build a knowledge base from a file."""

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
    """Build one file for `open_knowledge_base` from JSON Lines or CSV.

    The target appears when all of it is on the disk; readers of an older one continue with that. Raises
    BadKnowledgeBase if the source is wrong, and leaves the target as it was.
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
