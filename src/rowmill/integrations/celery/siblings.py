"""What the processes of one Celery worker share: which tasks run, and whether the worker shuts down.

The children of the prefork pool inherit an open file that has no name. Its first byte says that the worker shuts down;
a lock on another byte says that a task runs. The operating system drops the locks of a process that is killed.
"""

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count

from celery.signals import worker_init, worker_shutting_down

try:
    import fcntl
except ImportError:  # Windows: no pool there forks, and one process shares with nobody
    fcntl = None  # type: ignore[assignment]

SHUTTING_DOWN = b"\1"


class Siblings:
    """The file that the processes of a worker share. Create it before they are forked."""

    def __init__(self) -> None:
        # Never closed: a process that closes any handle of a file drops its locks on it.
        self._file = tempfile.TemporaryFile()  # noqa: SIM115
        self._places = count(1)
        self._held: set[int] = set()
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """In a child: it holds none of its parent's locks."""
        self._held, self._lock = set(), threading.Lock()

    def new_place(self) -> int:
        """Return a byte to lock. Children agree on it only if they were forked after this."""
        return next(self._places)

    @contextmanager
    def alone(self, place: int) -> Iterator[bool]:
        """Return whether no other process or thread of this worker is in such a block."""
        taken = self._take(place)
        try:
            yield taken
        finally:
            if taken:
                self._release(place)

    def _take(self, place: int) -> bool:
        with self._lock:  # the lock of a file belongs to a process, whatever its threads
            if place in self._held:
                return False
            if fcntl is not None:
                try:
                    fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
                except (BlockingIOError, PermissionError):
                    return False
            self._held.add(place)
            return True

    def _release(self, place: int) -> None:
        with self._lock:
            if fcntl is not None:
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, place)
            self._held.discard(place)

    @property
    def shutting_down(self) -> bool:
        """Whether the worker has begun a warm shutdown."""
        return os.pread(self._file.fileno(), 1, 0) == SHUTTING_DOWN

    def shut_down(self, shutting_down: bool) -> None:
        os.pwrite(self._file.fileno(), SHUTTING_DOWN if shutting_down else b"\0", 0)


@cache
def siblings() -> Siblings:
    """Return what the processes of this worker share."""
    shared = Siblings()
    worker_init.connect(lambda **_: shared.shut_down(False), weak=False)
    worker_shutting_down.connect(lambda **_: shared.shut_down(True), weak=False)
    return shared
