"""The demo as people run it: its proof, its last line, and that nothing of it is left."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.empty_database]

KEYS = {
    "rows", "done", "dead", "lost", "applied_twice", "stale_refused", "kills", "freezes", "seconds",
    "poison", "crashes", "attempts", "expected_dead", "unexpected_dead", "store",
}  # fmt: skip


class Demo:
    """`rowmill demo` in a process of its own, with temporary files in a folder of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from rowmill.cli.main import main; main()", "demo", "--rows", "600", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | {"TMPDIR": str(folder)},
        )

    def wait_for(self, words: str) -> None:
        assert self.process.stdout is not None
        said = []
        for line in self.process.stdout:
            said.append(line)
            if words in line:
                return
        raise AssertionError(f"never said {words!r}:\n{''.join(said)}")

    def finish(self) -> str:
        said, _ = self.process.communicate()
        return said

    def workers(self) -> list[psutil.Process]:
        """Its worker processes that are there, known by the ledgers in its folder."""
        found = []
        for process in psutil.process_iter():
            try:
                command = process.cmdline()
                if "rowmill.demo.worker" in command and str(self.folder) in " ".join(command):
                    found.append(process)
            except psutil.Error:
                continue
        return found


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[Demo]]:
    demos: list[Demo] = []
    yield demos
    for demo in demos:
        demo.process.kill()
        demo.process.wait()
        assert demo.process.stdout is not None
        demo.process.stdout.close()
        for worker in demo.workers():
            worker.kill()


def start(started: list[Demo], folder: Path, *options: str) -> Demo:
    temporary = folder / "temporary"
    temporary.mkdir()
    demo = Demo(temporary, *options)
    started.append(demo)
    return demo


def test_the_proof_holds(database_url: str, tmp_path: Path, started: list[Demo]) -> None:
    demo = start(started, tmp_path, "--json", "--database-url", database_url)
    said = demo.finish()
    numbers = json.loads(said.splitlines()[-1])

    assert demo.process.returncode == 0, said
    assert numbers.keys() >= KEYS
    assert numbers["rows"] == 600 == numbers["done"] + numbers["dead"]
    assert (numbers["lost"], numbers["applied_twice"], numbers["unexpected_dead"]) == (0, 0, 0)
    assert numbers["dead"] == numbers["expected_dead"]
    assert min(numbers[name] for name in ("stale_refused", "kills", "freezes", "poison", "crashes")) >= 1
    assert numbers["attempts"] == numbers["done"] + numbers["failed"] + numbers["crashes"]
    assert numbers["store"] == ("sqlite" if database_url.startswith("sqlite") else "postgresql")
    assert demo.workers() == []
    assert list(demo.folder.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_leaves_nothing(number: signal.Signals, tmp_path: Path, started: list[Demo]) -> None:
    demo = start(started, tmp_path)
    demo.wait_for("killed (SIGKILL)")
    assert len(demo.workers()) >= 2

    demo.process.send_signal(number)
    demo.finish()

    assert demo.process.returncode == 130
    assert demo.workers() == []
    assert list(demo.folder.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "words"),
    [("nonsense", "not a database URL"), ("postgresql://nobody@127.0.0.1:1/nothing", "does not answer")],
)
def test_a_database_that_is_not_there_is_said(url: str, words: str, tmp_path: Path, started: list[Demo]) -> None:
    demo = start(started, tmp_path, "--database-url", url)
    said = demo.finish()

    assert demo.process.returncode == 3
    assert words in said
    assert list(demo.folder.iterdir()) == []
