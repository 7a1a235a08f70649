"""A PostgreSQL server of our own, for tests and benches.

    with TemporaryPostgres({"shared_buffers": "1GB"}) as server:
        connect(server.url)

It is gone when the block ends, and also when this process is killed: see postgres_supervisor.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

REPOSITORY = Path(__file__).parents[2]

SETTINGS: Mapping[str, str] = {
    "fsync": "off",
    "synchronous_commit": "on",
    "max_connections": "200",
    "shared_buffers": "256MB",
}


ROOM = 4 * 1024**3
"""Bytes that a server needs for databases that come and go."""


def in_memory() -> Path | None:
    """Return a folder in memory, if there is one with enough space. Creating and dropping databases on disk takes ten
    times as long, and the tests do it thousands of times."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() and shutil.disk_usage(memory).free >= ROOM else None


class PostgresUnavailable(RuntimeError):
    """No PostgreSQL server could be started. The message contains the output of its programs."""


class TemporaryPostgres:
    def __init__(
        self, settings: Mapping[str, str] | None = None, *, root: Path | None = None, standby_of: str | None = None
    ) -> None:
        """`root` is the parent folder of its data. With `standby_of`, it follows the server of that URL."""
        self.settings = {**SETTINGS, **(settings or {})}
        self._place = {"root": None if root is None else str(root), "standby_of": standby_of}
        self.pid = 0
        self.port = 0
        self.folder = Path()
        self._supervisor: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        """The maintenance database, as superuser."""
        if self._supervisor is None:
            raise PostgresUnavailable("the temporary PostgreSQL is not running. Call start() first")
        return f"postgresql://tester@127.0.0.1:{self.port}/postgres"

    def start(self) -> Self:
        if self._supervisor is not None:
            return self
        supervisor = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.support.postgres_supervisor",
                json.dumps({"settings": self.settings, **self._place}),
            ],
            stdin=subprocess.PIPE,  # the lifeline: the server lives as long as our end is open
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            start_new_session=True,  # Ctrl-C is for us; the supervisor follows the lifeline
        )
        assert supervisor.stdout is not None
        ready = supervisor.stdout.readline()
        if not ready:
            _, complaint = supervisor.communicate()
            raise PostgresUnavailable(complaint.strip())
        facts = json.loads(ready)
        self.pid, self.port, self.folder = facts["pid"], facts["port"], Path(facts["folder"])
        self._supervisor = supervisor
        return self

    def down(self) -> None:
        """Stop the server immediately, with every connection. Its data and port stay."""
        self._order("down")

    def up(self) -> None:
        """Start the server again."""
        self._order("up")

    def _order(self, order: str) -> None:
        supervisor = self._supervisor
        assert supervisor is not None
        assert supervisor.stdin is not None
        assert supervisor.stdout is not None
        supervisor.stdin.write(f"{order}\n")
        supervisor.stdin.flush()
        answer = supervisor.stdout.readline()
        if not answer:
            raise PostgresUnavailable(supervisor.communicate()[1].strip())
        self.pid = json.loads(answer)["pid"]

    def stop(self) -> None:
        """Stop the server and remove its folder. Idempotent."""
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is not None:
            supervisor.communicate()  # closes the lifeline, waits for the end

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
