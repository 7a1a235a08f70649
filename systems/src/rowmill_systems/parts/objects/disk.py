"""Errors and listings of the file system."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from rowmill_systems.parts.objects.errors import ForbiddenObject, MissingObject, StorageFailed
from rowmill_systems.parts.objects.port import Facts

FULL = (errno.ENOSPC, errno.EDQUOT)
FORBIDDEN = (errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENOTDIR)


@contextmanager
def translated(missing: type[MissingObject | StorageFailed] = MissingObject) -> Iterator[None]:
    """Raise errors of `parts.objects.errors` in place of those of the operating system."""
    try:
        yield
    except OSError as error:
        number = error.errno or 0
        if number == errno.ENOENT:
            raise missing("the file is not there") from error
        if number in FORBIDDEN:
            raise ForbiddenObject("the system does not let us at the file: look at the folder's owner") from error
        if number in FULL:
            raise StorageFailed("the disk of the storage is full: make room, it goes on by itself") from error
        raise StorageFailed(f"the system says {errno.errorcode.get(number, 'no more')}") from error


def names_in(folder: Path, *, folders: bool) -> list[str]:
    """Return names in the order of whole keys, in which a slash follows the name of a folder."""
    try:
        with os.scandir(folder) as found:
            names = [
                entry.name
                for entry in found
                if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False) == folders
            ]
    except FileNotFoundError:  # gone since we saw it
        return []
    return sorted(names, key=lambda name: name + "/" if folders else name)


def facts_of(file: Path) -> Facts | None:
    try:
        found = file.lstat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return {"at": datetime.fromtimestamp(found.st_mtime, UTC), "size": found.st_size}


def sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
