"""`rowmill doctor` on the command line."""

import asyncio
import json
import sys
from types import ModuleType
from typing import Any

import pytest

import rowmill as rm
from rowmill.cli.main import run
from tests.doctor.conftest import WORDS, Clinic, jobs_table

Printed = pytest.CaptureFixture[str]


@pytest.fixture
def clinic(clinic_url: str, monkeypatch: pytest.MonkeyPatch) -> Clinic:
    module: Any = ModuleType("doctors_app")
    module.mill = rm.Mill(clinic_url)
    module.mill.queue(jobs_table(), columns=rm.Columns(state="status"), states=WORDS)
    monkeypatch.setitem(sys.modules, "doctors_app", module)
    asyncio.run(module.mill.migrate(tables=True))
    return Clinic(module.mill)


COMMAND = ["doctor", "--app", "doctors_app:mill"]


def test_nothing_found_ends_with_0(clinic: Clinic, capsys: Printed) -> None:
    assert run(COMMAND) == 0
    assert capsys.readouterr().out == "Nothing found.\n"


def test_warnings_end_with_5_and_come_with_their_fix(clinic: Clinic, capsys: Printed) -> None:
    asyncio.run(clinic.sql(clinic.insert("'pending'")))

    assert run(COMMAND) == 5

    printed = capsys.readouterr().out
    assert "warning  no_worker" in printed
    assert "fix: rowmill work --queue jobs" in printed


def test_what_is_only_worth_knowing_ends_with_0(clinic: Clinic, capsys: Printed) -> None:
    asyncio.run(clinic.sql(clinic.insert("'failed'")))

    assert run(COMMAND) == 0
    assert "dead_rows" in capsys.readouterr().out


def test_json_has_every_finding(clinic: Clinic, capsys: Printed) -> None:
    asyncio.run(clinic.sql("DROP INDEX rowmill_jobs_work_ready", clinic.insert("'pending'")))

    assert run([*COMMAND, "--json"]) == 5

    answer = json.loads(capsys.readouterr().out)
    assert (answer["errors"], answer["warnings"]) == (1, 1)
    assert answer["findings"][0] == {
        "severity": "error",
        "code": "index_missing",
        "what": "index rowmill_jobs_work_ready is missing: every claim reads the whole table",
        "fix": "rowmill adopt jobs --apply",
        "queue": "jobs",
    }


def test_a_queue_that_is_not_there_is_refused(clinic: Clinic, capsys: Printed) -> None:
    assert run(["doctor", "nope", "--app", "doctors_app:mill"]) == 2
    assert "no queue nope" in capsys.readouterr().err
    assert run(["doctor", "jobs", "--app", "doctors_app:mill"]) == 0
