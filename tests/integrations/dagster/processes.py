"""Processes of Dagster: commands, runs and the daemon, each with a home of its own."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from tests.support.python import ROOT
from tests.support.waiting import until

HOME = "DAGSTER_HOME"


def environment(home: Path, **more: str) -> dict[str, str]:
    """Variables for a process whose instance is in this folder."""
    home.mkdir(exist_ok=True)
    (home / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    return os.environ | {HOME: str(home), "DAGSTER_DISABLE_TELEMETRY": "1", "PYTHONPATH": str(ROOT), **more}


def start(*arguments: str, log: Path, env: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    """Start `python -m dagster …`. Its output is in `log`."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", *arguments],
            cwd=ROOT,
            env=env,
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
        )


def processes_of(home: str) -> list[psutil.Process]:
    """The processes whose instance is in this folder: daemons, code servers, runs."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(HOME) == home and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


@contextmanager
def daemon(module: str, *, log: Path, env: Mapping[str, str]) -> Iterator["subprocess.Popen[bytes]"]:
    """The daemon of Dagster, with the definitions of a module. At the end, everything that it started is gone: code
    servers would live on for half a minute, and runs until they end."""
    process = start("dagster._daemon", "run", "-m", module, log=log, env=env)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(30)
        for left in processes_of(env[HOME]):
            with suppress(psutil.Error):
                left.kill()
        process.wait(30)
        until(lambda: not processes_of(env[HOME]))
