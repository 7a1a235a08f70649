"""The commands on a table with hostile names: they answer for it, and what they print can be copied safely."""

import asyncio
import json
import shlex
import sys
from types import ModuleType
from typing import Any

import pytest

from rowmill import Lease, Mill, PermanentError
from rowmill.cli.main import run
from tests.security.hostile import BAD, bad_queue, bad_row

each_bad = pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
HERE = "tests.security.hostile_app:mill"


class Shell:
    """Runs `rowmill` for an application with one hostile queue."""

    def __init__(self, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.url, self._capsys = url, capsys

    def __call__(self, *arguments: str, code: int = 0) -> str:
        self._capsys.readouterr()
        found = run([*arguments, "--app", HERE, "--database-url", self.url])
        shown = self._capsys.readouterr()
        assert found == code, shown.err + shown.out
        return shown.out

    def json(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(self(*arguments, "--json", code=code))


@pytest.fixture
def shell(database_url: str, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(database_url, capsys)


def declared(url: str, bad: str, monkeypatch: pytest.MonkeyPatch) -> Mill:
    """The application's mill, with one queue on the hostile table."""
    mill = Mill(url)
    queue = bad_queue(mill, bad)

    @queue.handler(stage=f"one{bad}")
    async def work(lease: Lease[Any]) -> None:
        raise PermanentError(bad, code=bad)

    module: Any = ModuleType("tests.security.hostile_app")
    module.mill = mill
    monkeypatch.setitem(sys.modules, "tests.security.hostile_app", module)
    return mill


@each_bad
def test_every_command_does_its_work(shell: Shell, bad: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mill = declared(shell.url, bad, monkeypatch)
    queue, key = f"q{bad}", f"{bad}0"
    shell("migrate", "--tables")
    assert shell("migrate", "--check")
    asyncio.run(mill.run(lambda c: c.execute(mill[queue].insert([bad_row(bad, 0), bad_row(bad, 1)])).close()))

    assert shell.json("list", queue, "--state", f"ready{bad}", "--key", key)["rows"][0]["key"] == key
    assert shell.json("pause", queue, "--stage", f"one{bad}")["changed"]
    assert "paused" in [hold["reason"] for hold in shell.json("why", queue, key)["holds"]]
    assert shell.json("resume", queue, "--stage", f"one{bad}")["changed"]
    found = shell.json("doctor", code=5)["findings"]
    assert {finding["code"] for finding in found} == {"no_worker"}, found
    shell("drain")
    assert shell.json("stats", queue)["queues"][0]["failures"] == {bad: 2}
    # A key of text is whatever somebody put in, and an operator copies this into a shell.
    [hold] = shell.json("why", queue, key)["holds"]
    assert shlex.split(hold["text"].split("Try again with: ")[1]) == ["rowmill", "requeue", queue, "--key", key]
    assert shell.json("show", queue, key)["values"][f"v{bad}"] == f"{bad} 0"
    assert [one["message"] for one in shell.json("show", queue, key)["history"]] == [bad]
    assert shell.json("requeue", queue, "--error-code", bad, "--stage", f"one{bad}", "--yes")["changed"] == 2
    assert shell.json("cancel", queue, "--key", key, "--yes")["changed"] == 1
    assert shell.json("prune", queue, "--older-than", "0s", "--yes")["changed"] == 1
    assert shell.json("rescue", "--yes")["changed"] == 0
    assert shell("adopt", queue)
