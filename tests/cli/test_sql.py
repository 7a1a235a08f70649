"""`rowmill sql`: its script runs as it is printed, and changes nothing."""

import sqlite3

import psycopg
import pytest
import sqlalchemy as sa

from tests.cli import example
from tests.cli.conftest import Shell

QUEUES = list(example.mill.queues)


@pytest.mark.parametrize("queue", QUEUES)
def test_the_script_explains_every_statement(shell: Shell, queue: str) -> None:
    script = shell.ok("sql", queue).out

    if shell.url.startswith("postgresql"):
        with psycopg.connect(shell.url) as connection:
            connection.execute(script.encode())
        assert script.count("EXPLAIN EXECUTE") == script.count("\nPREPARE rowmill_") > 5
    else:
        with sqlite3.connect(shell.url.removeprefix("sqlite:///")) as file:
            file.executescript(script)
        file.close()
        assert script.count("EXPLAIN QUERY PLAN") > 5


def test_the_script_changes_nothing(shell: Shell) -> None:
    table = example.files_queue.table
    shell.put(table, {"path": "a", "status": "queued"})
    before = shell.do(lambda connection: connection.execute(sa.select(table)).all())

    test_the_script_explains_every_statement(shell, "files")

    assert shell.do(lambda connection: connection.execute(sa.select(table)).all()) == before


def test_the_statements_as_json(shell: Shell) -> None:
    found = shell.ok("sql", "entities", "--json").json

    assert found["queue"] == "entities"
    assert set(found["statements"][0]) == {"name", "stage", "served_by", "text"}
    assert {one["stage"] for one in found["statements"]} == {step.name for step in example.entities_queue.steps}


def test_one_stage_only(shell: Shell) -> None:
    stage = example.entities_queue.steps[0].name
    found = shell.ok("sql", "entities", "--stage", stage, "--json").json

    assert {one["stage"] for one in found["statements"]} == {stage}


def test_an_unknown_stage_is_named(shell: Shell) -> None:
    answer = shell("sql", "files", "--stage", "nope")

    assert answer.code != 0
    assert "nope" in answer.err
