"""Python processes that start at once: they are forked from one that has imported Rowmill already.

    process = Python("-m", "rowmill", "work", "app:mill", cwd=folder, stderr=PIPE)

A new interpreter takes more than half a second to import Rowmill, and the tests start hundreds of processes. These are
processes as any other: they have their own environment, can be frozen and killed. Use `subprocess` where the start of
the interpreter matters: a terminal, an encoding, what is imported.
"""

import contextlib
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from multiprocessing.connection import Connection
from multiprocessing.forkserver import ensure_running
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

PIPE, DEVNULL = subprocess.PIPE, subprocess.DEVNULL
Stream = int | IO[Any] | None

ROOT = Path(__file__).parents[2]

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["tests.support.preloaded"])


def start_fork_server() -> None:
    """Start the process that others are forked from. It imports by its own folder, so it starts in the root, before a
    test moves elsewhere."""
    with contextlib.chdir(ROOT):
        ensure_running()


class Python:
    """`python -m MODULE …` or `python -c CODE …`. It has the part of the interface of `subprocess.Popen` that tests
    use, in bytes."""

    def __init__(
        self,
        *arguments: str | Path,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        stdin: Stream = DEVNULL,
        stdout: Stream = None,
        stderr: Stream = None,
    ) -> None:
        self.args = [str(argument) for argument in arguments]
        self.stdin, theirs_in = _stream(stdin, 0)
        self.stdout, theirs_out = _stream(stdout, 1)
        self.stderr, theirs_err = _stream(stderr, 2)
        streams = (theirs_in, theirs_out, theirs_err)
        environment = dict(os.environ if env is None else env)
        self._process = _forks.Process(target=_main, args=(self.args, environment, str(cwd or os.getcwd()), streams))
        self._process.start()
        for stream in streams:
            stream.close()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self.returncode is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode

    def communicate(self, given: bytes = b"", timeout: float | None = None) -> tuple[bytes, bytes]:
        """Return what it writes to its pipes until it ends. Twice is fine: then there is nothing more."""
        found: dict[int, bytes] = {}

        def read(place: int, stream: IO[bytes]) -> None:
            found[place] = stream.read()

        readers = [
            threading.Thread(target=read, args=(place, stream), daemon=True)
            for place, stream in enumerate((self.stdout, self.stderr))
            if stream is not None and not stream.closed
        ]
        for reader in readers:
            reader.start()
        if self.stdin is not None and not self.stdin.closed:
            with self.stdin:
                self.stdin.write(given)
        self.wait(timeout)
        for reader in readers:
            reader.join(timeout)
        self._close()
        return found.get(0, b""), found.get(1, b"")

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()
        self.wait()

    def _close(self) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close()


def run_python(
    *arguments: str | Path,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    given: bytes = b"",
    timeout: float = 60.0,
) -> "subprocess.CompletedProcess[bytes]":
    """Run one to its end, and return what it wrote."""
    process = Python(*arguments, env=env, cwd=cwd, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    try:
        out, err = process.communicate(given, timeout)
    finally:
        process.kill()
    assert process.returncode is not None
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def _stream(wanted: Stream, number: int) -> tuple[IO[bytes] | None, Connection]:
    """Our end of a pipe, and what becomes stdin, stdout or stderr of the process."""
    if wanted == PIPE:
        reading, writing = os.pipe()
        ours, theirs = (writing, reading) if number == 0 else (reading, writing)
        return os.fdopen(ours, "wb" if number == 0 else "rb"), Connection(theirs)
    if wanted == DEVNULL:
        return None, Connection(os.open(os.devnull, os.O_RDWR))
    if wanted is None:
        return None, Connection(os.dup(number))
    return None, Connection(os.dup(wanted if isinstance(wanted, int) else wanted.fileno()))


def _main(arguments: list[str], environment: dict[str, str], folder: str, streams: tuple[Connection, ...]) -> None:
    """In the new process: do what `python` would do with these arguments."""
    for number, stream in enumerate(streams):
        os.dup2(stream.fileno(), number)
        stream.close()
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.path[:0] = ["", *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    way, what, *rest = arguments
    sys.argv = [way, *rest]
    if way == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
