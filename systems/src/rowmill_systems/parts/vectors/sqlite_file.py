"""The SQLite file of vectors: its tables, its connections and its errors.

Several processes of one machine share it. Each reads at any time (WAL) and waits for its turn to write.
"""

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rowmill_systems.parts.vectors.errors import CollectionMissing, VectorsUnavailable

BUSY_MS = 30_000
"""How long a write waits for those of other processes."""
PLACES = 40
"""The bits of a point's id below its collection: the points of a collection lie side by side, and are read in a row."""

TABLES = """
CREATE TABLE IF NOT EXISTS vector_collections (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    dimensions INTEGER NOT NULL,
    given INTEGER NOT NULL DEFAULT 0,    -- ids that its points were given so far; none is given twice
    removed INTEGER NOT NULL DEFAULT 0   -- points that were deleted or replaced so far
);
CREATE TABLE IF NOT EXISTS vector_points (
    id INTEGER PRIMARY KEY,              -- collection << 40 | number of the id
    document BLOB NOT NULL,
    collection INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    number INTEGER NOT NULL,
    model TEXT NOT NULL,
    at INTEGER NOT NULL,                 -- microseconds since 1970
    vector BLOB NOT NULL                 -- float32, little-endian
);
CREATE UNIQUE INDEX IF NOT EXISTS vector_points_place ON vector_points (document, collection, generation, number);
CREATE INDEX IF NOT EXISTS vector_points_written ON vector_points (document, collection, generation, model, at);
"""
"""The second index answers which documents have points without touching the vectors."""
COLLECTION = "SELECT id, dimensions, given, removed FROM vector_collections WHERE name = ?"


@dataclass(frozen=True, slots=True)
class CollectionRow:
    """A collection in the state of the file that a transaction sees."""

    id: int
    dimensions: int
    given: int
    removed: int

    @property
    def first(self) -> int:
        """The first id that its points may have."""
        return self.id << PLACES

    @property
    def next(self) -> int:
        """The id of its next point."""
        return self.first + self.given

    @property
    def count(self) -> int:
        """How many points it has."""
        return self.given - self.removed


def find_collection(connection: sqlite3.Connection, name: str) -> CollectionRow | None:
    found = connection.execute(COLLECTION, (name,)).fetchone()
    return CollectionRow(*found) if found else None


def collection_in(connection: sqlite3.Connection, name: str) -> CollectionRow:
    """Return the collection. Raises CollectionMissing."""
    found = find_collection(connection, name)
    if found is None:
        raise CollectionMissing("there is no such collection, or no longer")
    return found


class VectorConnection(sqlite3.Connection):
    """A connection that knows its file from another one under the same name."""

    file = (0, 0)


class VectorFile:
    """The file and its idle connections. Safe to share among threads; a forked process opens connections of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().absolute()
        self._lock = threading.Lock()
        self._idle: list[VectorConnection] = []
        self._file: tuple[int, int] | None = None
        self._process = os.getpid()

    def prepare(self) -> None:
        """Make the file and its tables. Idempotent."""
        with translated():
            if self._file is None and not self.path.exists():
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        with self._connected() as connection:
            connection.execute("PRAGMA page_size = 8192")  # of a new file alone: more vectors fit into a page
            connection.execute("PRAGMA journal_mode = WAL")
            with transaction(connection, "BEGIN IMMEDIATE"):
                for statement in TABLES.split(";\n"):
                    connection.execute(statement)

    @contextmanager
    def reading(self) -> Iterator[VectorConnection]:
        """See one state of the file, from the first statement to the end."""
        with self._connected() as connection, transaction(connection, "BEGIN"):
            yield connection

    @contextmanager
    def writing(self) -> Iterator[VectorConnection]:
        """Write all or nothing."""
        with self._connected() as connection, transaction(connection, "BEGIN IMMEDIATE"):
            yield connection

    def close(self) -> None:
        with self._lock:
            idle, self._idle, self._file = self._idle, [], None
        for connection in idle:
            connection.close()

    @contextmanager
    def _connected(self) -> Iterator[VectorConnection]:
        with translated():
            file = self._identity()
            connection = self._taken(file)
            try:
                yield connection
            except BaseException:
                connection.close()
                raise
            with self._lock:
                if self._file == file:
                    self._idle.append(connection)
                    return
            connection.close()

    def _taken(self, file: tuple[int, int]) -> VectorConnection:
        with self._lock:
            if self._file != file or self._process != os.getpid():
                ABANDONED.extend(self._idle)
                self._idle, self._file, self._process = [], file, os.getpid()
            found = self._idle.pop() if self._idle else None
        return found or connect(self.path, file)

    def _identity(self) -> tuple[int, int]:
        """Return what tells the file from another one under its name. A connection would go on in one that was
        removed, and never notice."""
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            raise VectorsUnavailable(
                "the file of vectors is not there: nothing was stored yet, or a disk is not mounted"
            ) from None
        return found.st_dev, found.st_ino


ABANDONED: list[VectorConnection] = []
"""Connections of the process that forked us, or to a file that another one replaced. They stay open: to close one could
remove the log of the file that is there now."""


def connect(path: Path, file: tuple[int, int]) -> VectorConnection:
    """Connect to the file, which must be there: SQLite would make an empty one, which looks like vectors were lost."""
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode=rw", uri=True, timeout=BUSY_MS / 1000, isolation_level=None, check_same_thread=False,
        factory=VectorConnection,
    )  # fmt: skip
    connection.file = file
    connection.execute("PRAGMA synchronous = FULL")
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection, begin: str) -> Iterator[None]:
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


@contextmanager
def translated() -> Iterator[None]:
    """Turn errors of SQLite and of the disk into VectorsUnavailable, by their code, never by values."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorname", type(error).__name__)
        raise VectorsUnavailable(f"the file of vectors can't be used: {code}") from error
    except OSError as error:
        raise VectorsUnavailable(f"the file of vectors can't be used: {error.strerror}") from error
