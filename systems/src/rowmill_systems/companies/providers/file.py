"""A file of companies as a provider: everything works offline."""

import hashlib
import json
import logging
import os
import secrets
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import rowmill as rm
from rowmill_systems.companies.providers.file_index import (
    FileIndex,
    IndexStamp,
    build_index,
    finish_index,
    normalizer_mark,
    write_stamp,
)
from rowmill_systems.companies.providers.file_rows import BuildProgress, CompaniesFile
from rowmill_systems.companies.providers.port import Answer, NameUnusable, ProviderClosed, SpendCall, usable_name
from rowmill_systems.parts.sheets import BadSheet

log = logging.getLogger("rowmill")
SUFFIX = ".index.sqlite"
CHUNK = 1024 * 1024


@dataclass(frozen=True, slots=True)
class FileReport:
    """What was read from a file of companies."""

    rows: int
    skipped: Mapping[str, int]
    """Rows that were left out, by reason: broken, no_id, long_id, no_name, long_name, void."""
    skipped_lines: tuple[int, ...]
    """The first of them."""


class FileProvider:
    """Looks names up in a CSV or Parquet file, by an index on disk. Thread-safe.

    The index is made at the first search, or by `prepare`, and made again when the file has changed. It is beside the
    file; in the user's cache folder, if that can't be written. A lookup costs no call.

    Names that are in the file in the same normal form are found alone. Otherwise names that share its rarest words, or
    words that are spelt almost the same.
    """

    batch_size = 500

    def __init__(
        self,
        path: Path | str,
        *,
        name: str = "file",
        columns: Mapping[str, str] | None = None,
        index_dir: Path | None = None,
    ) -> None:
        """`columns` has names of columns by "id", "name", "other_names" and "details". None: GLEIF's, or usual ones."""
        self.name = name
        self.path = Path(path)
        self.report: FileReport | None = None
        """What was read when the index was last made. None: it was there."""
        self._columns = dict(columns or {}) or None
        self._index_dir = index_dir
        self._lock = threading.Lock()
        self._index: FileIndex | None = None
        self._stamp: IndexStamp | None = None
        self._mark = ""
        self._closed = False

    def prepare(self, progress: BuildProgress | None = None) -> None:
        """Make the index, if it is missing or out of date. Raises BadSheet, which says what is wrong with the file."""
        self._current(progress)

    def search(self, names: Sequence[str], spend: SpendCall) -> Sequence[Answer]:
        """Look names up in the file. `spend` is not called: there is no request."""
        try:
            index = self._current(None)
        except BadSheet:
            # What is wrong may quote the header, and a file without one has a company there: it is not logged.
            error = rm.TransientError(
                f"the file of companies can't be used: look at WDH_COMPANIES_FILE, or call {type(self).__name__}"
                ".prepare() to see why",
                code="companies_file",
            )
            return [error] * len(names)
        except rm.errors.WorkError as closed:
            return [closed] * len(names)
        return [self._answer(index, name) for name in names]

    def close(self) -> None:
        """Close the index. Idempotent."""
        with self._lock:
            self._closed = True
            if self._index is not None:
                self._index.close()
                self._index = None

    def _answer(self, index: FileIndex, name: str) -> Answer:
        try:
            return index.search(usable_name(name))
        except NameUnusable as error:
            return error
        except sqlite3.Error as error:
            return rm.TransientError(
                f"the index of companies can't be read: {type(error).__name__}. Delete it: it is made again",
                code="companies_index",
            )

    def _current(self, progress: BuildProgress | None) -> FileIndex:
        with self._lock:
            if self._closed:
                raise ProviderClosed(f"{self.name} is closed")
            stamp = self._stamp_now()
            if self._index is None or self._stamp != stamp:
                self._index, self._stamp = self._open_or_build(stamp, progress), stamp
            return self._index

    def _stamp_now(self) -> IndexStamp:
        try:
            found = self.path.stat()
        except OSError as error:
            raise BadSheet(f"{self.path} can't be read: {error.strerror}. Look at WDH_COMPANIES_FILE") from None
        if not self.path.is_file():
            raise BadSheet(f"{self.path} is no file. Look at WDH_COMPANIES_FILE")
        self._mark = self._mark or normalizer_mark()
        columns = json.dumps(self._columns, sort_keys=True)
        return IndexStamp(found.st_size, found.st_mtime_ns, columns, self._mark)

    def _open_or_build(self, stamp: IndexStamp, progress: BuildProgress | None) -> FileIndex:
        try:
            path = self._index_path()
            index = _opened(path)
            if index is not None:
                if self._is_current(index, path, stamp):
                    return index
                index.close()
            self._build(path, stamp, progress)
            return FileIndex(path)
        except (OSError, sqlite3.Error) as error:
            raise BadSheet(
                f"its index can't be made: {type(error).__name__}. Look for free space on the disk, or say in which "
                "folder it may be written: WDH_COMPANIES_INDEX_DIR"
            ) from error

    def _is_current(self, index: FileIndex, path: Path, stamp: IndexStamp) -> bool:
        known = index.stamp()
        if known == stamp:
            return True
        if replace(known, modified_ns=stamp.modified_ns) != stamp or index.digest != self._digest():
            return False
        with suppress(sqlite3.Error):  # touched, or copied: the next one need not read it to know
            write_stamp(path, stamp, index.digest)
        return True

    def _build(self, path: Path, stamp: IndexStamp, progress: BuildProgress | None) -> None:
        new = path.with_name(f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}.new")
        # Before it is read: if it changes meanwhile, the index is made again, rather than taken for the new file's.
        digest = self._digest()
        try:
            with self.path.open("rb") as file:
                source = CompaniesFile(self.path, file, self._columns)
                build_index(new, source.companies(progress))
            self.report = FileReport(source.rows, dict(source.skipped), tuple(source.skipped_lines))
            finish_index(new, path, stamp, digest)
        finally:
            with suppress(OSError):
                new.unlink()
        level = logging.WARNING if source.skipped.total() else logging.INFO
        log.log(
            level,
            "indexed a file of companies: %d rows, %d left out (%s)",
            source.rows,
            source.skipped.total(),
            ", ".join(f"{reason}: {count}" for reason, count in sorted(source.skipped.items())) or "none",
        )

    def _index_path(self) -> Path:
        """Return where the index is: in the given folder, beside the file, or in the user's cache."""
        if self._index_dir is not None:
            self._index_dir.mkdir(parents=True, exist_ok=True)
            return self._index_dir / self._index_name()
        beside = self.path.with_name(f"{self.path.name}{SUFFIX}")
        if beside.exists() or os.access(self.path.parent, os.W_OK):
            return beside
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rowmill" / "companies"
        cache.mkdir(parents=True, exist_ok=True)
        return cache / self._index_name()

    def _index_name(self) -> str:
        place = hashlib.sha256(str(self.path.absolute()).encode("utf-8", "surrogateescape")).hexdigest()[:12]
        return f"{self.path.stem[:60]}-{place}{SUFFIX}"

    def _digest(self) -> str:
        digest = hashlib.sha256()
        with self.path.open("rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
        return digest.hexdigest()


def _opened(path: Path) -> FileIndex | None:
    """Open an index. None: there is none, or it is not one that can be read."""
    if not path.exists():
        return None
    try:
        index = FileIndex(path)
        index.stamp()
    except (sqlite3.Error, ValueError, TypeError, KeyError):
        return None
    return index
