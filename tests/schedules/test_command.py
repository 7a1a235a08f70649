"""`rowmill schedule …`"""

import asyncio
import json
import re
from typing import Any

import pytest

from rowmill.cli.main import run
from tests.schedules import app
from tests.schedules.plant import QUICK


class Shell:
    def __init__(self, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.url, self._capsys = url, capsys

    def __call__(self, *arguments: str, code: int = 0) -> str:
        return self.rowmill("schedule", *arguments, code=code)

    def rowmill(self, *arguments: str, code: int = 0) -> str:
        self._capsys.readouterr()
        found = run(["--app", "tests.schedules.app:mill", "--database-url", self.url, *arguments])
        shown = self._capsys.readouterr()
        assert found == code, shown.err
        return shown.out if code == 0 else shown.err

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--json"))

    def drain(self) -> None:
        app.mill.move_to(self.url)
        asyncio.run(app.mill.drain(settings=QUICK))


@pytest.fixture
def shell(database_url: str, capsys: pytest.CaptureFixture[str]) -> Shell:
    app.mill.move_to(database_url)
    asyncio.run(app.mill.migrate())
    asyncio.run(app.mill.run(app.metadata.create_all))
    return Shell(database_url, capsys)


def test_list_says_what_is_declared_before_any_worker_started(shell: Shell) -> None:
    beat, cleanup = shell.json("list")["schedules"]
    assert (beat["name"], beat["expression"], beat["last"]) == ("beat", "every 1 s", None)
    assert (cleanup["zone"], cleanup["note"]) == ("Asia/Shanghai", "no worker has started with it yet")
    assert cleanup["next_at"].endswith("T19:00:00+00:00")
    assert "never" in shell("list")


def test_stats_have_a_line_for_each(shell: Shell) -> None:
    assert re.search(r"schedule cleanup: next run \S+ 19:00:00 UTC", shell.rowmill("stats"))
    shell("run", "cleanup")
    shell.drain()
    shell("pause", "cleanup")
    told = shell.rowmill("stats")
    assert "schedule cleanup: paused, last run" in told
    assert "done (by hand)" in told
    _, cleanup = json.loads(shell.rowmill("stats", "--json"))["schedules"]
    assert cleanup["last"]["state"] == "done"


def test_a_run_by_hand_shows_in_list_and_history(shell: Shell) -> None:
    tick = shell.json("run", "cleanup")["tick"]
    shell.drain()

    cleanup = shell.json("list")["schedules"][1]
    assert (cleanup["last"]["id"], cleanup["last"]["state"]) == (tick, "done")
    assert cleanup["last"]["seconds"] is not None
    assert cleanup["note"] == ""
    [ran] = shell.json("history", "cleanup")["ticks"]
    assert (ran["id"], ran["manual"], ran["attempts"]) == (tick, True, 1)
    assert "done (by hand)" in shell("history", "cleanup")


def test_a_failed_run_says_so(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEDULES_FAIL", "1")
    shell("run", "cleanup")
    shell.drain()
    [ran] = shell.json("history", "cleanup")["ticks"]
    assert (ran["state"], ran["error"]) == ("dead", "no: no")
    assert "failed (by hand)" in shell("list")


def test_pause_and_resume(shell: Shell) -> None:
    assert shell.json("pause", "cleanup") == {"schedule": "cleanup", "paused": True, "changed": True}
    assert "was paused already" in shell("pause", "cleanup")
    assert shell.json("list")["schedules"][1]["next_at"] is None
    assert "paused" in shell("list")
    assert shell.json("resume", "cleanup")["changed"] is True
    assert "was not paused" in shell("resume", "cleanup")
    assert shell.json("list")["schedules"][1]["next_at"] is not None


def test_a_paused_schedule_can_be_run_by_hand(shell: Shell) -> None:
    shell("pause", "cleanup")
    shell("run", "cleanup")
    shell.drain()
    assert [ran["state"] for ran in shell.json("history", "cleanup")["ticks"]] == ["done"]


@pytest.mark.parametrize("command", ["run", "pause", "resume", "history"])
def test_an_unknown_name_is_refused_with_those_that_there_are(shell: Shell, command: str) -> None:
    assert "It has: beat, cleanup" in shell(command, "clean", code=2)


def test_the_queue_of_ticks_answers_to_the_other_commands(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    tick = shell.json("run", "cleanup")["tick"]
    base = ["--app", "tests.schedules.app:mill", "--database-url", shell.url]
    capsys.readouterr()
    assert run([*base, "why", "rowmill_tick", str(tick)]) == 0
    assert "no living worker serves queue rowmill_tick" in capsys.readouterr().out
    assert run([*base, "stats"]) == 0
    assert "queue rowmill_tick" in capsys.readouterr().out
