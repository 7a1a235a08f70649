"""A command line on a database of either kind, and hands to put rows into it."""

import asyncio
import json
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import Connection

from rowmill.cli.main import run
from rowmill.testing import QUICK
from tests.cli import example
from tests.support.databases import Prepare

APP = "tests.cli.example:mill"


class Answer:
    """What a command answered."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        """The one JSON document on stdout."""
        assert self.out.count("\n") == 1, self.out
        return json.loads(self.out)


def plain_columns(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the columns of a row whose values are no SQL, else nothing."""
    return () if any(isinstance(value, sa.ClauseElement) for value in row.values()) else tuple(row)


class Shell:
    """Runs `rowmill` on a database with the example's tables."""

    def __init__(self, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.url = url
        self._capsys = capsys

    def __call__(self, *arguments: str) -> Answer:
        self._capsys.readouterr()
        code = run(["--app", APP, "--database-url", self.url, *arguments])
        shown = self._capsys.readouterr()
        return Answer(code, shown.out, shown.err)

    def ok(self, *arguments: str) -> Answer:
        answer = self(*arguments)
        assert answer.code == 0, answer.err
        return answer

    def do(self, work: Callable[[Connection], Any]) -> Any:
        example.mill.move_to(self.url)
        return asyncio.run(example.mill.run(work))

    def put(self, table: sa.Table, *rows: Mapping[str, Any]) -> None:
        """Insert rows. Those with the same columns go together: one by one, thousands of them take seconds."""

        def work(connection: Connection) -> None:
            for columns, found in groupby(rows, key=plain_columns):
                if columns:
                    connection.execute(sa.insert(table), list(found))
                else:
                    for row in found:
                        connection.execute(sa.insert(table).values(**row))

        self.do(work)

    def rows(self, table: sa.Table) -> list[dict[str, Any]]:
        wanted = sa.select(table).order_by(*table.primary_key.columns)
        return [dict(row) for row in self.do(lambda c: c.execute(wanted).mappings().all())]

    def states(self, table: sa.Table, column: str = "state") -> list[Any]:
        return [row[column] for row in self.rows(table)]

    def drain(self, *queues: str) -> None:
        example.mill.move_to(self.url)
        asyncio.run(example.mill.drain(list(queues), settings=QUICK))

    def now(self, table: sa.Table, role: str, seconds: float = 0.0) -> Any:
        """The database's time in a column's type, for `put` and updates."""
        queue = next(queue for queue in example.mill.queues.values() if queue.table is table)
        example.mill.move_to(self.url)
        sql = example.mill.store.sql(queue)
        return sa.literal_column(sql.later(role, repr(seconds)))


def install_example(url: str) -> None:
    """Create Rowmill's own tables and those of the example."""
    example.mill.move_to(url)
    asyncio.run(example.mill.migrate(tables=True))


@pytest.fixture
def prepare(prepare: Prepare, request: pytest.FixtureRequest) -> Prepare:
    """A test with a `shell` is about an application whose tables are there."""
    return install_example if "shell" in request.fixturenames else prepare


@pytest.fixture
def empty_shell(database_url: str, capsys: pytest.CaptureFixture[str]) -> Shell:
    """On a database without the example's tables."""
    return Shell(database_url, capsys)


@pytest.fixture
def shell(database_url: str, capsys: pytest.CaptureFixture[str]) -> Shell:
    """On a database with every table in place."""
    example.mill.move_to(database_url)
    return Shell(database_url, capsys)
