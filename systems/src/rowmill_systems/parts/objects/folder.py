"""Store files in a folder, the default. A stored file survives a loss of power, and is visible whole or not at all."""

import contextlib
import os
import secrets
import stat
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import IO

from rowmill_systems.parts.objects.disk import facts_of, names_in, sync, translated
from rowmill_systems.parts.objects.errors import ForbiddenObject, MissingObject, StorageFailed
from rowmill_systems.parts.objects.keys import SHAPE, name_of, parts_of
from rowmill_systems.parts.objects.port import DAY, Facts
from rowmill_systems.parts.objects.streams import CHUNK, FileIncoming, ThreadDownload, check_size, checked
from rowmill_systems.parts.objects.threads import StorageThreads

INCOMING = ".incoming"
"""Holds bytes until their key is known.

It is inside of the folder, since files can be renamed only within a file system; and it distinguishes our folder from
the empty one of a disk that is not mounted.
"""
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # a pipe that somebody put there must not hang us
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


class FolderStorage:
    """A Storage in a folder. Only the owner of the process can read the files. Symbolic links are not followed."""

    def __init__(self, root: Path) -> None:
        self.root = root.expanduser().absolute()
        self._threads = StorageThreads("rowmill-folder")

    @asynccontextmanager
    async def receive(self, *, most: int | None = None) -> AsyncIterator["FolderIncoming"]:
        incoming = await self._threads.finish(lambda: self._begin(most), undo=FolderIncoming.drop)
        try:
            yield incoming
        finally:
            await self._threads.finish(incoming.drop)

    def _begin(self, most: int | None) -> "FolderIncoming":
        with translated():
            if not self.root.is_dir():
                self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
                sync(self.root.parent)
            folder = self.enter(INCOMING, make=True)
            try:
                name = secrets.token_hex(16)
                file = os.fdopen(os.open(name, CREATE, 0o600, dir_fd=folder), "wb", buffering=0)
            except BaseException:
                os.close(folder)
                raise
            return FolderIncoming(self, folder, name, file, self._threads, most)

    async def get(self, key: str, *, most: int) -> bytes:
        return await self._threads.run(self._get, key, most)

    def _get(self, key: str, most: int) -> bytes:
        file, size = self._opened(key)
        with file, translated():
            check_size(size, most)
            return checked(file.read(), key)

    async def open(self, key: str) -> ThreadDownload:
        file, size = await self._threads.finish(lambda: self._opened(key), undo=lambda found: found[0].close())

        def read() -> bytes:
            with translated():
                return file.read(CHUNK)

        return ThreadDownload(size, read, file.close, self._threads)

    def _opened(self, key: str) -> tuple[IO[bytes], int]:
        with self._object(key) as (folder, name):
            descriptor = os.open(name, READ, dir_fd=folder)
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                os.close(descriptor)
                raise ForbiddenObject("what stands under this key is not a file")
            return os.fdopen(descriptor, "rb"), found.st_size

    async def delete(self, key: str) -> None:
        await self._threads.run(self._delete, key)

    def _delete(self, key: str) -> None:
        with contextlib.suppress(MissingObject), self._object(key) as (folder, name):
            os.unlink(name, dir_fd=folder)
            os.fsync(folder)

    async def exists(self, key: str) -> bool:
        return await self._threads.run(self._exists, key)

    def _exists(self, key: str) -> bool:
        with contextlib.suppress(MissingObject), self._object(key) as (folder, name):
            return stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
        return False

    def keys(self, owner: object = None, collections: str = "") -> AsyncIterator[tuple[str, Facts]]:
        return self._threads.pages(self._keys(None if owner is None else name_of(owner), collections))

    def _keys(self, only: str | None, collections: str) -> Iterator[tuple[str, Facts]]:
        with translated():
            self._check_mounted()
            for owner in names_in(self.root, folders=True) if only is None else [only]:
                for collection in names_in(self.root / owner, folders=True):
                    if not collection.startswith(collections):
                        continue
                    folder = self.root / owner / collection
                    for name in names_in(folder, folders=False):
                        key = f"{owner}/{collection}/{name}"
                        if SHAPE.fullmatch(key) and (facts := facts_of(folder / name)):
                            yield key, facts

    async def sweep(self, older: float = DAY) -> int:
        return await self._threads.run(self._sweep, time.time() - older)

    def _sweep(self, before: float) -> int:
        swept = 0
        with translated(), contextlib.suppress(FileNotFoundError), os.scandir(self.root / INCOMING) as found:
            for entry in found:
                with contextlib.suppress(FileNotFoundError):  # another process sweeps too
                    if entry.stat(follow_symlinks=False).st_mtime < before:
                        os.unlink(entry.path)
                        swept += 1
        return swept

    async def close(self) -> None:
        self._threads.close()

    @contextmanager
    def _object(self, key: str) -> Iterator[tuple[int, str]]:
        """Open the folder of an object. Yields its descriptor, and the name of the object in it."""
        *folders, name = parts_of(key)
        try:
            with translated():
                folder = self.enter(*folders)
                try:
                    yield folder, name
                finally:
                    os.close(folder)
        except MissingObject:
            with translated():
                self._check_mounted()
            raise

    def _check_mounted(self) -> None:
        if not (self.root / INCOMING).is_dir():
            raise StorageFailed(
                f"the storage folder has no {INCOMING}: nothing was stored yet, or a disk is not mounted"
            )

    def enter(self, *names: str, make: bool = False) -> int:
        """Open a folder below the root step by step, so that no symbolic link can lead elsewhere."""
        folder = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        for name in names:
            try:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(name, 0o700, dir_fd=folder)
                        os.fsync(folder)
                following = os.open(name, FOLDER, dir_fd=folder)
            finally:
                os.close(folder)
            folder = following
        return folder


class FolderIncoming(FileIncoming):
    def __init__(
        self, storage: FolderStorage, folder: int, name: str, file: IO[bytes], threads: StorageThreads, most: int | None
    ) -> None:
        super().__init__(file, threads, most)
        self._storage, self._folder, self._name = storage, folder, name

    def append(self, chunk: bytes) -> None:
        with translated(missing=StorageFailed):
            rest = memoryview(chunk)
            while rest:  # a disk that fills up takes a part of it first
                rest = rest[self.file.write(rest) :]

    def place(self, key: str) -> None:
        *folders, name = parts_of(key)
        with translated(missing=StorageFailed):
            os.fsync(self.file.fileno())
            target = self._storage.enter(*folders, make=True)
            try:
                os.replace(self._name, name, src_dir_fd=self._folder, dst_dir_fd=target)
                os.fsync(target)
            finally:
                os.close(target)

    def drop(self) -> None:
        """Remove the file, unless it was kept. Idempotent."""
        self.file.close()
        if self._folder >= 0:
            with contextlib.suppress(OSError):
                os.unlink(self._name, dir_fd=self._folder)
            os.close(self._folder)
            self._folder = -1
