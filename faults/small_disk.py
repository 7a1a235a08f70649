"""A file system of a few megabytes that can be filled up. It disappears with the processes that use it."""

import ctypes
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

NEW_MOUNTS = 0x00020000
"""CLONE_NEWNS of unshare(2), which Python has from 3.12 on."""


class CannotMount(RuntimeError):
    """This process has no permission to mount."""


@dataclass(frozen=True)
class SmallDisk:
    path: Path

    def fill(self) -> None:
        """Fill it to the last byte."""
        ballast = os.open(self.path / "ballast", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            for piece in (1 << 20, 1 << 12, 1):
                try:
                    while os.write(ballast, bytes(piece)):
                        pass
                except OSError:
                    continue
        finally:
            os.close(ballast)

    def clear(self) -> None:
        (self.path / "ballast").unlink(missing_ok=True)


@contextmanager
def small_disk(megabytes: int) -> Iterator[SmallDisk]:
    with tempfile.TemporaryDirectory(prefix="rowmill-room-") as folder:
        apart()
        _run("mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=755", "tmpfs", folder)
        try:
            yield SmallDisk(Path(folder))
        finally:
            _run("umount", "--lazy", folder)


def apart() -> None:
    """Give this process its own mounts, which disappear with it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(NEW_MOUNTS):
        raise CannotMount(f"mounts of our own: {os.strerror(ctypes.get_errno())}")
    _run("mount", "--make-rprivate", "/")


def _run(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise CannotMount(f"{command[0]}: {error.strerror}") from error
    if done.returncode:
        raise CannotMount(f"{command[0]}: {done.stderr.strip()}")
