"""A NATS server on loopback, with JetStream in a folder that outlives it."""

import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Self


def program() -> str:
    beside = Path(sys.executable).with_name("nats-server")
    return str(beside) if beside.exists() else shutil.which("nats-server") or "nats-server"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class NatsServer:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> Self:
        with (self.folder / "nats.log").open("ab") as log:
            self._process = subprocess.Popen(
                [program(), "-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", str(self.folder / "store")],
                stdout=log, stderr=log,
            )  # fmt: skip
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return self
            except OSError:
                assert self._process.poll() is None, (self.folder / "nats.log").read_text()
                assert time.monotonic() < deadline, "the NATS server does not start"
                time.sleep(0.02)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
