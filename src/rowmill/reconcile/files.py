"""An inventory of the files in a folder: relative paths with slashes, sorted by the whole path."""

import asyncio
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from pathlib import Path, PurePosixPath
from typing import Any

from rowmill.reconcile.inventory import Expected, Inventory, Pages, sync_pages
from rowmill.reconcile.item import Facts, Item
from rowmill.reconcile.sorting import SortedRuns
from rowmill.store.port import Store


class FileInventory(Inventory):
    """Files of a folder. Each directory is sorted by itself, a large one on disk. A directory that is missing or can't
    be read counts as not observed, never as empty."""

    def __init__(self, folder: str | os.PathLike[str], suffix: str, **common: Any) -> None:
        super().__init__(at="modified_at", **common)
        self.folder = Path(folder)
        self.suffix = suffix

    async def pages(self, store: Store) -> Pages:
        async with aclosing(sync_pages(files_below(self.folder, self.suffix))) as pages:
            async for page in pages:
                yield page

    async def look(self, store: Store, keys: Sequence[Any]) -> dict[Any, Facts]:
        return await asyncio.to_thread(self._look, keys)

    def _look(self, keys: Sequence[Any]) -> dict[Any, Facts]:
        os.stat(self.folder)  # raises if the folder is gone: then nothing is known about its files
        inside = [key for key in keys if key.endswith(self.suffix) and is_below(key)]
        return {key: facts for key in inside if (facts := facts_of(self.folder / key)) is not None}


def files_below(folder: Path, suffix: str = "", prefix: str = "") -> Iterator[Item]:
    """Yield every file with its path relative to the folder. A directory sorts as if its name ended with a slash, as
    all paths below it do: "a.txt" comes before "a/b", and "a/b" before "a0"."""
    runs = SortedRuns()
    try:
        with os.scandir(folder / prefix) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    runs.add([(f"{entry.name}/",)])
                elif entry.name.endswith(suffix):
                    runs.add([(entry.name,)])
    except FileNotFoundError:
        if not prefix:
            raise
        os.stat(folder)  # a subfolder was deleted meanwhile; raises if the whole folder is gone
        return
    for (name,) in runs:
        if name.endswith("/"):
            yield from files_below(folder, suffix, prefix + name)
        elif (facts := facts_of(folder / prefix / name)) is not None:
            yield prefix + name, facts


def is_below(key: str) -> bool:
    """Return whether a key is a path inside the folder. Keys also come from other inventories and may be any text."""
    path = PurePosixPath(key)
    return "\x00" not in key and not path.is_absolute() and ".." not in path.parts and str(path) == key


def facts_of(file: Path) -> Facts | None:
    """Return modification time and size; None if there is no such file."""
    try:
        found = os.stat(file)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return {"modified_at": found.st_mtime, "size": found.st_size}


def files(folder: str | os.PathLike[str], *, suffix: str = "", expects: Expected = None) -> FileInventory:
    """Return an inventory of the files in a folder and its subfolders, by relative path. `suffix` selects files. Facts:
    `modified_at`, which is the item's time, and `size`. Links to folders are not followed.

    A disk that is not mounted looks like an empty folder. Set `expects=1` to detect it.
    """
    return FileInventory(folder, suffix, expects=expects)
