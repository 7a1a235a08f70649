"""Files that a command is given: found in folders, read in chunks."""

import asyncio
import errno
import os
import stat
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

CHUNK = 1024 * 1024


def all_files(paths: list[Path], refused: dict[Path, str]) -> Iterator[Path]:
    """Yield files, and those in folders, in order, without hidden ones.

    Notes folders that can't be read in `refused`.
    """

    def note(error: OSError) -> None:
        refused[Path(error.filename)] = unreadable(error)

    for path in paths:
        if not path.is_dir():
            yield path
            continue
        for folder, folders, names in os.walk(path, onerror=note):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            yield from (Path(folder) / name for name in sorted(names) if not name.startswith("."))


def unreadable(error: OSError) -> str:
    return f"unreadable: {error.strerror}"


async def chunks_of(path: Path) -> AsyncIterator[bytes]:
    """Yield the bytes of a file. Raises OSError, also for what is no regular file."""
    # Nobody may write to a pipe that lies among the files, and we would wait for that.
    if not stat.S_ISREG((await asyncio.to_thread(path.stat)).st_mode):
        raise OSError(errno.EINVAL, "Not a file")
    with path.open("rb") as file:
        while chunk := await asyncio.to_thread(file.read, CHUNK):
            yield chunk


def shown(path: Path) -> str:
    """Return a path as text, also if its name is not valid Unicode."""
    return os.fsencode(path).decode("utf-8", "replace")
