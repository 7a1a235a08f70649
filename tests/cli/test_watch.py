"""watch: what holds, and an exit code for scripts."""

import json
import os
import signal
import subprocess
import sys

import pytest
import sqlalchemy as sa

from tests.cli.conftest import APP, Shell
from tests.cli.example import files


def test_once_tells_what_holds_and_exits_with_5(shell: Shell) -> None:
    shell.put(files, {"id": 1, "status": "queued"})
    shell.drain("files")  # somebody was there
    answer = shell("watch", "--queue", "files", "--once", "--json")
    assert (answer.code, answer.json) == (0, {"alerts": []})

    shell.put(files, {"id": 2, "status": "queued", "available_at": sa.text("'2020-01-01 00:00:00.000000'")})
    answer = shell("watch", "--queue", "files", "--once", "--json")
    assert answer.code == 5
    [found] = answer.json["alerts"]
    assert (found["alert"], found["severity"], found["queue"]) == ("ROWS_WAIT_TOO_LONG", "ERROR", "files")
    assert "ROWS_WAIT_TOO_LONG" in shell("watch", "--queue", "files", "--once").out


def test_a_database_that_does_not_answer_is_an_alert_with_a_code_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answer = Shell("postgresql://127.0.0.1:1/none", capsys)("watch", "--once", "--json")
    assert answer.code == 3
    assert [alert["alert"] for alert in answer.json["alerts"]] == ["DATABASE_UNREACHABLE"]


def test_it_goes_on_until_told_to_stop(shell: Shell) -> None:
    """As a process of its own, with alerts as lines of JSON."""
    command = [sys.executable, "-m", "rowmill", "--app", APP, "--database-url", shell.url, "watch", "--queue", "files"]
    process = subprocess.Popen(
        [*command, "--log-format", "json"], stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": "."}
    )
    try:
        assert process.stderr is not None
        line = json.loads(process.stderr.readline())
        assert (line["event"], line["alert"], line["severity"], line["queue"]) == (
            "alert", "NOBODY_WORKS", "CRITICAL", "files",
        )  # fmt: skip
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
        assert process.returncode == 143
    finally:
        process.kill()
