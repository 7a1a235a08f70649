"""Rows whose times are `infinity`, `-infinity`, or beyond Python's calendar: every command still works."""

import json
import uuid
from typing import Any

import pytest
import sqlalchemy as sa

from tests.cli.conftest import Shell
from tests.cli.example import codes, entities, files

POSTGRES = {
    "at the end of time": "infinity",
    "at the beginning of time": "-infinity",
    "after the year 9999": "20000-01-01 00:00:00+00",
    "before the year 1": "0044-03-15 12:00:00+00 BC",
}
SQLITE = {
    "at the end of time": "infinity",
    "at the beginning of time": "-infinity",
    "after the year 9999": "20000-01-01 00:00:00.000000",
    "before the year 1": "-0044-03-15 12:00:00.000000",
}
COLUMNS = ("available_at", "leased_until", "finished_at", "created_at")
STATES = ("queued", "processing", "completed", "failed")
NUMBERS = {"after the year 9999": 2**62, "before the year 1": -(2**62)}


def in_text(shell: Shell, case: str) -> "sa.ColumnElement[Any]":
    """As somebody writes it who does not know Rowmill."""
    times = POSTGRES if shell.url.startswith("postgresql") else SQLITE
    return sa.literal_column(f"'{times[case]}'")


def strictly(text: str) -> Any:
    """JSON as everybody reads it: without Infinity and NaN."""
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


@pytest.mark.parametrize("case", POSTGRES)
def test_every_command_works_on_rows_beyond_the_calendar(shell: Shell, case: str) -> None:
    rows = [
        {"status": state, "lease": number if state == "processing" else None, column: in_text(shell, case)}
        for number, state in enumerate(STATES, start=1)
        for column in COLUMNS
    ]
    shell.put(files, *({"id": number, **row} for number, row in enumerate(rows, start=1)))

    assert len(strictly(shell.ok("list", "files", "--json").out)["rows"]) == len(rows)
    strictly(shell.ok("stats", "--json").out)
    for number in range(1, len(rows) + 1):
        strictly(shell.ok("show", "files", str(number), "--json").out)
        strictly(shell.ok("why", "files", str(number), "--json").out)
    for command in (["stats"], ["list", "files"], ["list", "files", "--since", "1h"]):
        shell.ok(*command)
    assert [shell(*command).code for command in (["watch", "--once"], ["doctor"])] == [5, 5]
    for change in (["rescue"], ["requeue", "files"], ["prune", "files", "--older-than", "1d"]):
        shell.ok(*change, "--yes")


def test_a_row_whose_time_never_comes_is_explained(shell: Shell) -> None:
    shell.put(files, {"id": 1, "status": "queued", "available_at": in_text(shell, "at the end of time")})

    assert "its time never comes" in shell.ok("why", "files", "1").out
    [row] = shell.ok("list", "files", "--json").json["rows"]
    assert row["available_at"].startswith("9999-12-31T23:59:59")


def test_a_row_that_is_kept_for_longer_than_the_calendar_lasts(shell: Shell) -> None:
    key = uuid.UUID(int=1)
    shell.put(entities, {"id": key, "state": "COMPLETE", "finished_at": in_text(shell, "at the end of time")})

    assert "kept until 9999-12-31" in shell.ok("why", "entities", str(key)).out


@pytest.mark.parametrize("case", NUMBERS)
def test_epoch_numbers_beyond_the_calendar(shell: Shell, case: str) -> None:
    """As milliseconds are where microseconds were written, or worse."""
    shell.put(codes, *({"id": state, "state": state, "available_at": NUMBERS[case]} for state in range(5)))

    assert len(shell.ok("list", "codes", "--json").json["rows"]) == 5
    strictly(shell.ok("stats", "--json").out)
    for key in range(5):
        strictly(shell.ok("why", "codes", str(key), "--json").out)
