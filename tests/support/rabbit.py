"""A RabbitMQ server on loopback, if its programs are installed."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Self

from tests.support.nats import free_port

PROGRAM = "rabbitmq-server"
EPMD = "epmd"
"""Erlang's name service. A node that finds none starts one that outlives it."""
SECONDS = 90.0


def installed() -> bool:
    return shutil.which(PROGRAM) is not None and shutil.which(EPMD) is not None


class RabbitServer:
    """A node with its own epmd; `kill` ends both. Stored messages are there again after `start`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._epmd = free_port()
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"

    def start(self) -> Self:
        plugins = self.folder / "enabled_plugins"
        plugins.write_text("[].")
        config = self.folder / "rabbitmq"
        config.with_suffix(".conf").write_text(f"listeners.tcp.1 = 127.0.0.1:{self.port}\n")
        given = os.environ | {
            "HOME": str(self.folder),
            "ERL_EPMD_PORT": str(self._epmd),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": "rowmill@localhost",
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_CONFIG_FILE": str(config),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(self.folder / "log"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins),
        }
        with (self.folder / "rabbit.log").open("ab") as log:
            for program in (EPMD, PROGRAM):
                self._processes.append(
                    subprocess.Popen([program], stdout=log, stderr=log, env=given, start_new_session=True)
                )
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return self
            except OSError:
                assert self._processes[-1].poll() is None, (self.folder / "rabbit.log").read_text()
                assert time.monotonic() < deadline, "RabbitMQ does not start"
                time.sleep(0.1)

    def kill(self) -> None:
        while self._processes:
            process = self._processes.pop()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
