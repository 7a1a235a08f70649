"""Files in a folder as an inventory: paths below it, with slashes, in the order of the whole path."""

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


class Files(Inventory):
    """Each folder is sorted by itself, a big one outside of memory. A folder that can't be read, or is not there, was
    not observed: it is not an empty one."""

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
        os.stat(self.folder)  # a folder that is gone says nothing about its files
        inside = [key for key in keys if key.endswith(self.suffix) and is_below(key)]
        return {key: facts for key in inside if (facts := facts_of(self.folder / key)) is not None}


def files_below(folder: Path, suffix: str = "", prefix: str = "") -> Iterator[Item]:
    """Every file, by its path below the folder. A folder sorts as if its name ended with a slash, since every path
    below it goes on with one: "a.txt" comes before "a/b", and "a/b" before "a0"."""
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
        os.stat(folder)  # a folder that was deleted meanwhile; but not all of them at once
        return
    for (name,) in runs:
        if name.endswith("/"):
            yield from files_below(folder, suffix, prefix + name)
        elif (facts := facts_of(folder / prefix / name)) is not None:
            yield prefix + name, facts


def is_below(key: str) -> bool:
    """Keys come from other inventories, too, and may be any text."""
    path = PurePosixPath(key)
    return "\x00" not in key and not path.is_absolute() and ".." not in path.parts and str(path) == key


def facts_of(file: Path) -> Facts | None:
    """None where there is no file, or none any more."""
    try:
        found = os.stat(file)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return {"modified_at": found.st_mtime, "size": found.st_size}


def files(folder: str | os.PathLike[str], *, suffix: str = "", expects: Expected = None) -> Files:
    """Files in a folder and those below it, by their path from there; `suffix` names those that count. Facts:
    `modified_at`, which is their time, and `size`. Links to folders are not followed.

    A disk that is not mounted looks like an empty folder: `expects=1` tells them apart.
    """
    return Files(folder, suffix, expects=expects)
