"""Queues of many shapes, adopted by the book: look, settle the doubts, save the declaration, migrate, work.

Nothing is lost, repeated, early or overwritten; what can't be had without a person's word is refused until it is given.
"""

import asyncio
import importlib
import os
import signal
import sqlite3
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

import rowmill as rm
from rowmill.cli.main import run
from rowmill.store import expressions
from rowmill.store.open import open_store, parse_url
from rowmill.testing import Bench
from tests.support.postgres_programs import find_programs
from tests.support.python import run_python

pytestmark = pytest.mark.empty_database

DAY = 86400.0
LEASE = 900.0
OWN_LINES = 15
"""What a team may have to keep in its code for a table that it has."""


@dataclass(frozen=True)
class Foreign:
    """A table of somebody else's. In its SQL, @ahead, @ago, @moment, @epoch, @flag, @yes and @no stand for what each
    database says for them."""

    name: str
    table: str
    sql: tuple[str, ...]
    ready: frozenset[Any]
    """Keys of the rows that are to be worked on at once."""
    later: frozenset[Any] = frozenset()
    running: frozenset[Any] = frozenset()
    options: tuple[str, ...] = ()
    refused: str = ""
    """What it is refused with as long as the options are not given."""
    columns: dict[str, str] = field(default_factory=dict)
    killed: bool = False
    """A worker is killed in the midst of the work."""

    @property
    def conditions(self) -> list[str]:
        """The options that are about rows, not about what code declares."""
        pairs = zip(self.options[::2], self.options[1::2], strict=True)
        return [text for option, value in pairs if option.endswith("-where") for text in (option, value)]

    def statements(self, postgres: bool) -> list[str]:
        marks = {
            "@ahead": "now() + interval '1 day'" if postgres else "datetime('now', '+1 day')",
            "@ago": "now() - interval '1 day'" if postgres else "datetime('now', '-1 day')",
            "@epoch": "extract(epoch FROM now())::bigint" if postgres else "CAST(strftime('%s', 'now') AS INTEGER)",
            "@moment": "timestamptz" if postgres else "DATETIME",
            "@yes": "true" if postgres else "1",
            "@no": "false" if postgres else "0",
            "@flag": "boolean" if postgres else "INTEGER",
        }
        found = []
        for statement in self.sql:
            for mark, text in marks.items():
                statement = statement.replace(mark, text)
            found.append(statement)
        return found


FOREIGN = (
    Foreign(
        "foreign keys: plain, composite, to itself",
        "tasks",
        (
            "CREATE TABLE owners (id integer PRIMARY KEY)",
            "CREATE TABLE places (a integer, b integer, PRIMARY KEY (a, b))",
            "CREATE TABLE tasks (id integer PRIMARY KEY, owner integer REFERENCES owners (id), a integer, b integer, "
            "parent integer REFERENCES tasks (id), status text, FOREIGN KEY (a, b) REFERENCES places (a, b))",
            "INSERT INTO owners VALUES (1)",
            "INSERT INTO places VALUES (1, 2)",
            "INSERT INTO tasks VALUES (1, 1, 1, 2, NULL, 'pending'), (2, 1, 1, 2, 1, 'pending'), "
            "(3, NULL, NULL, NULL, 1, 'done'), (4, 1, 1, 2, 2, 'processing')",
        ),
        ready=frozenset({1, 2}),
        running=frozenset({4}),
        killed=True,
    ),
    Foreign(
        "a report of a change of states",
        "status_changes",
        (
            "CREATE TABLE status_changes (id integer PRIMARY KEY, old_status text, new_status text, "
            "processed @flag NOT NULL)",
            "INSERT INTO status_changes VALUES (1, 'pending', 'processing', @yes), (2, 'processing', 'done', @yes), "
            "(3, 'pending', 'failed', @no), (4, 'failed', 'pending', @no)",
        ),
        ready=frozenset({3, 4}),
        options=("--new", "state"),
        refused="which column holds the state of a row is not certain",
        columns={"state": "state"},
    ),
    Foreign(
        "scheduled for a time",
        "notifications",
        (
            "CREATE TABLE notifications (id integer PRIMARY KEY, status varchar(10) NOT NULL DEFAULT 'queued', "
            "scheduled_time @moment, time_created @moment NOT NULL, retried integer NOT NULL DEFAULT 0)",
            "INSERT INTO notifications VALUES (1, 'queued', @ago, @ago, 0), (2, 'queued', @ahead, @ago, 0), "
            "(3, 'queued', NULL, @ago, 1), (4, 'sent', @ago, @ago, 0)",
        ),
        ready=frozenset({1, 3}),
        later=frozenset({2}),
        columns={"available_at": "scheduled_time", "created_at": "time_created", "attempts": "retried"},
        killed=True,
    ),
    Foreign(
        "three times, one of which is meant",
        "reminders",
        (
            "CREATE TABLE reminders (id integer PRIMARY KEY, status text, scheduled_at @moment, run_at @moment, "
            "remind_at @moment)",
            "INSERT INTO reminders VALUES (1, 'pending', @ago, @ago, @ahead), (2, 'pending', @ahead, @ago, @ago), "
            "(3, 'done', @ago, @ago, @ago)",
        ),
        ready=frozenset({2}),
        later=frozenset({1}),
        options=("--column", "available_at=remind_at"),
        refused="--column available_at=remind_at",
        columns={"available_at": "remind_at"},
    ),
    Foreign(
        "a time of publication that is not the queue's",
        "posts",
        (
            "CREATE TABLE posts (id integer PRIMARY KEY, indexing_status text, published_at @moment, title text)",
            "INSERT INTO posts VALUES (1, 'pending', @ago, 'a'), (2, 'pending', @ago, 'b'), (3, 'done', @ago, 'c')",
        ),
        ready=frozenset({1, 2}),
        options=("--new", "finished_at"),
        refused="finished_at, which says when a row was finished: is it? published_at",
        columns={"finished_at": "finished_at"},
    ),
    Foreign(
        "flags in place of states",
        "deliveries",
        (
            "CREATE TABLE deliveries (id integer PRIMARY KEY, delivered @flag, error @flag, archived @flag, "
            "locked @flag, consume_after @moment, retried integer)",
            "INSERT INTO deliveries VALUES (1, @no, @no, @no, @no, NULL, 0), (2, @yes, @no, @yes, @no, NULL, 1), "
            "(3, @no, @yes, @no, @no, NULL, 3), (4, @no, @no, @yes, @no, NULL, 0), (5, @no, @no, @no, @yes, NULL, 1), "
            "(6, @no, @no, @no, @no, @ahead, NULL)",
        ),
        ready=frozenset({1}),
        later=frozenset({6}),
        running=frozenset({5}),
        columns={"available_at": "consume_after", "attempts": "retried", "state": "state"},
    ),
    Foreign(
        "conditions in place of states",
        "mails",
        (
            "CREATE TABLE mails (id integer PRIMARY KEY, code integer, body text, last_modified @moment)",
            "INSERT INTO mails VALUES (1, NULL, 'a', @ago), (2, 250, 'b', @ago), (3, 550, 'c', @ago), "
            "(4, 1, 'd', @ago), (5, -1, 'e', @ago)",
        ),
        ready=frozenset({1}),
        running=frozenset({4}),
        options=(
            "--done-where", "code = 250", "--dead-where", "code >= 500", "--running-where", "code = 1",
            "--ready-where", "code IS NULL",
        ),
        refused="--done-where",
        killed=True,
    ),
    Foreign(
        "numbers for states, numbers for times",
        "jobs",
        (
            "CREATE TABLE jobs (id integer PRIMARY KEY, state smallint NOT NULL DEFAULT 0, run_at bigint, "
            "created bigint NOT NULL, max_retries integer NOT NULL DEFAULT 9)",
            "INSERT INTO jobs VALUES (1, 0, @epoch - 10, @epoch - 99, 9), (2, 0, @epoch + 86400, @epoch - 99, 9), "
            "(3, 1, NULL, @epoch - 99, 9), (4, 2, NULL, @epoch - 99, 9), (5, 9, NULL, @epoch - 99, 9)",
        ),
        ready=frozenset({1}),
        later=frozenset({2}),
        running=frozenset({3}),
        options=("--ready", "0", "--running", "1", "--done", "2", "--dead", "9"),
        refused="holds numbers, and what they mean is a guess",
        columns={"available_at": "run_at", "created_at": "created", "attempts": "attempts"},
    ),
    Foreign(
        "a composite key, a CHECK, attempts of its own name",
        "cleanup_tasks",
        (
            "CREATE TABLE cleanup_tasks (tenant integer, no integer, cleanup_attempts integer NOT NULL DEFAULT 0, "
            "status text NOT NULL CHECK (status IN ('todo', 'doing', 'done', 'failed')), error_text text, "
            "PRIMARY KEY (tenant, no))",
            "CREATE INDEX cleanup_open ON cleanup_tasks (no) WHERE status = 'todo'",
            "INSERT INTO cleanup_tasks VALUES (7, 1, 0, 'todo', NULL), (7, 2, 1, 'todo', 'disk full'), "
            "(8, 1, 2, 'doing', NULL), (8, 2, 1, 'done', NULL)",
        ),
        ready=frozenset({(7, 1), (7, 2)}),
        running=frozenset({(8, 1)}),
        columns={"attempts": "cleanup_attempts", "error": "error_text"},
        killed=True,
    ),
    Foreign(
        "a trigger that watches the state",
        "imports",
        (
            "CREATE TABLE imports (id integer PRIMARY KEY, state text NOT NULL, processed_at @moment, payload text)",
            "CREATE TABLE imports_log (id integer, state text)",
            "@trigger",
            "INSERT INTO imports VALUES (1, 'new', NULL, 'a'), (2, 'new', NULL, 'b'), (3, 'ok', @ago, 'c')",
        ),
        ready=frozenset({1, 2}),
        columns={"finished_at": "processed_at"},
    ),
    Foreign(
        "no state, only the time of the end",
        "outbox",
        (
            "CREATE TABLE outbox (id integer PRIMARY KEY, payload text, processed_at @moment, expires_at @moment)",
            "INSERT INTO outbox VALUES (1, 'a', NULL, @ahead), (2, 'b', @ago, @ahead), (3, 'c', NULL, NULL)",
        ),
        ready=frozenset({1, 3}),
        columns={"finished_at": "processed_at", "available_at": "available_at"},
    ),
    Foreign(
        "mails with a time of success and a flag for failure",
        "outgoing",
        (
            "CREATE TABLE outgoing (id integer PRIMARY KEY, recipient text, scheduled_for @moment, sent_at @moment, "
            "opened_at @moment, failed @flag, error text, attempts integer NOT NULL DEFAULT 0)",
            "INSERT INTO outgoing VALUES (1, 'a', NULL, NULL, NULL, @no, NULL, 0), "
            "(2, 'b', @ahead, NULL, NULL, @no, NULL, 0), (3, 'c', @ago, @ago, @ago, @no, NULL, 1), "
            "(4, 'd', NULL, NULL, NULL, @yes, 'bounced', 3), (5, 'e', @ago, NULL, NULL, @no, 'timeout', 1)",
        ),
        ready=frozenset({1, 5}),
        later=frozenset({2}),
        columns={"available_at": "scheduled_for", "finished_at": "sent_at"},
        killed=True,
    ),
    Foreign(
        "rows that are locked, marked when they failed, and deleted when they are done",
        "delayed",
        (
            "CREATE TABLE delayed (id integer PRIMARY KEY, priority integer NOT NULL DEFAULT 0, handler text, "
            "attempts integer NOT NULL DEFAULT 0, last_error text, run_at @moment, locked_at @moment, "
            "locked_by text, failed_at @moment)",
            "INSERT INTO delayed VALUES (1, 0, 'h', 0, NULL, @ago, NULL, NULL, NULL), "
            "(2, 0, 'h', 2, 'oops', @ahead, NULL, NULL, NULL), (3, 0, 'h', 0, NULL, @ago, @ago, 'w', NULL), "
            "(4, 0, 'h', 25, 'dead', @ago, NULL, NULL, @ago)",
        ),
        ready=frozenset({1}),
        later=frozenset({2}),
        running=frozenset({3}),
        options=("--done-where", "false"),
        refused="say --done-where false",
        killed=True,
    ),
    Foreign(
        "deleted rows, and the state of something else",
        "exports",
        (
            "CREATE TABLE exports (id integer PRIMARY KEY, contract_status text NOT NULL, export_status text NOT NULL, "
            "export_error text, exported_at @moment, deleted_at @moment)",
            "INSERT INTO exports VALUES (1, 'active', 'pending', NULL, NULL, NULL), "
            "(2, 'cancelled', 'pending', NULL, NULL, @ago), (3, 'active', 'done', NULL, @ago, NULL), "
            "(4, 'active', 'failed', 'x', NULL, NULL)",
        ),
        ready=frozenset({1}),
        options=("--state-column", "export_status"),
        refused="contract_status (active: 3, cancelled: 1)",
        columns={"error": "export_error"},
        killed=True,
    ),
    Foreign(
        "a webhook that failed and has a next try",
        "webhooks",
        (
            "CREATE TABLE webhooks (id varchar(36) PRIMARY KEY, status text NOT NULL, attempts integer DEFAULT 0, "
            "last_attempt_at @moment, next_retry_at @moment, response_code integer)",
            "INSERT INTO webhooks VALUES ('a', 'pending', 0, NULL, NULL, NULL), ('b', 'failed', 1, @ago, @ahead, 500), "
            "('c', 'success', 1, @ago, NULL, 200)",
        ),
        ready=frozenset({"a"}),
        later=frozenset({"b"}),
        options=("--waiting", "failed"),
        refused="--waiting failed, if such rows are retried",
        columns={"available_at": "next_retry_at"},
        killed=True,
    ),
    Foreign(
        "names that need quotes, and a state of few letters",
        "Work Items",
        (
            'CREATE TABLE "Work Items" ("Item Id" integer PRIMARY KEY, "Status" varchar(4) NOT NULL, '
            '"Error" text, "Retry Count" integer)',
            """INSERT INTO "Work Items" VALUES (1, 'NEW', NULL, NULL), (2, 'NEW', '', 0), (3, 'DONE', NULL, 1)""",
        ),
        ready=frozenset({1, 2}),
        columns={"attempts": "Retry Count", "error": "Error"},
        killed=True,
    ),
)  # fmt: skip

TRIGGERS = {
    True: (
        "CREATE FUNCTION log_import() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN INSERT INTO imports_log VALUES (NEW.id, NEW.state); RETURN NEW; END $$",
        "CREATE TRIGGER log_import AFTER UPDATE OF state ON imports FOR EACH ROW EXECUTE FUNCTION log_import()",
    ),
    False: (
        "CREATE TRIGGER log_import AFTER UPDATE OF state ON imports BEGIN "
        "INSERT INTO imports_log VALUES (NEW.id, NEW.state); END",
    ),
}

ON_POSTGRES = (
    Foreign(
        "an enum type, and keys into another schema",
        "work.orders",
        (
            "CREATE SCHEMA work",
            "CREATE SCHEMA other",
            "CREATE TABLE other.people (id integer PRIMARY KEY)",
            "CREATE TYPE work.order_state AS ENUM ('NEW', 'DONE', 'ERROR')",
            "CREATE TABLE work.orders (id integer PRIMARY KEY, person integer REFERENCES other.people (id), "
            "state work.order_state NOT NULL DEFAULT 'NEW', error_message varchar(50) NOT NULL DEFAULT '')",
            "INSERT INTO work.orders VALUES (1, NULL, 'NEW'), (2, NULL, 'NEW'), (3, NULL, 'DONE'), (4, NULL, 'ERROR')",
        ),
        ready=frozenset({1, 2}),
        columns={"error": "error_message"},
    ),
    Foreign(
        "partitions",
        "events",
        (
            "CREATE TABLE events (id integer, day date, status text, PRIMARY KEY (id, day)) PARTITION BY LIST (day)",
            "CREATE TABLE events_1 PARTITION OF events FOR VALUES IN ('2026-01-01')",
            "CREATE TABLE events_2 PARTITION OF events DEFAULT",
            "INSERT INTO events VALUES (1, '2026-01-01', 'pending'), (2, '2026-02-01', 'pending'), "
            "(3, '2026-02-01', 'done')",
        ),
        ready=frozenset({1, 2}),
        killed=True,
    ),
)


class Place:
    """A folder of an application, with a database in which somebody's table is."""

    def __init__(self, folder: Path, url: str, foreign: Foreign) -> None:
        self.folder = folder
        self.url = url
        self.foreign = foreign
        self.engine = open_store(parse_url(url)).sync_engine
        self.postgres = self.engine.dialect.name == "postgresql"

    def make(self) -> None:
        with self.engine.begin() as connection:
            for statement in self.foreign.statements(self.postgres):
                for one in TRIGGERS[self.postgres] if statement == "@trigger" else (statement,):
                    expressions.run(connection, one)

    def table(self) -> sa.Table:
        schema, _, name = self.foreign.table.rpartition(".")
        return sa.Table(name, sa.MetaData(), schema=schema or None, autoload_with=self.engine, resolve_fks=False)

    def rows(self, columns: list[str] | None = None) -> dict[Any, dict[str, Any]]:
        """By key, raw."""
        table = self.table()
        raw = [sa.type_coerce(column, sa.types.NullType()).label(column.name) for column in table.columns]
        keys = [column.name for column in table.primary_key]
        with self.engine.connect() as connection:
            found = [dict(row) for row in connection.execute(sa.select(*raw)).mappings()]
        return {
            tuple(row[key] for key in keys) if len(keys) > 1 else row[keys[0]]: {
                name: value for name, value in row.items() if columns is None or name in columns
            }
            for row in found
        }

    def adopt(self, *options: str) -> int:
        return run(["adopt", self.foreign.table, "--database-url", self.url, *options])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("ROWMILL_APP", "ROWMILL_DATABASE_URL", "DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "their_app", raising=False)
    return tmp_path


KILLED = """
import asyncio, os, signal
import their_app
queue = next(iter(their_app.mill.queues.values()))

@queue.handler(concurrency=1)
async def work(lease):
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(their_app.mill.drain())
"""


def lines_of(declaration: str) -> int:
    """What a team has to keep: not the imports, brackets and comments, nor the handler, which is theirs anyway."""
    code = declaration.partition("\n# Add your handler")[0]
    lines = [line.strip() for line in code.splitlines()]
    return sum(1 for line in lines if line and line != ")" and not line.startswith(("#", "import ", ")")))


async def work_to_the_end(mill: rm.Mill, foreign: Foreign) -> None:
    queue = next(iter(mill.queues.values()))
    worked: list[Any] = []

    @queue.handler()
    async def work(lease: rm.Lease[rm.Record]) -> None:
        worked.append(lease.key[0] if foreign.table == "events" else lease.key)

    async with mill.opened():
        bench = Bench(mill)
        await bench.drain()
        assert len(worked) == len(set(worked))
        assert set(worked) <= foreign.ready, "what is in progress is somebody's"
        await bench.advance(LEASE + 1)
        await bench.drain()
        assert len(worked) == len(set(worked))
        assert set(worked) == foreign.ready | foreign.running, "nothing is early"
        await bench.advance(2 * DAY)
        await bench.drain()
        assert len(worked) == len(set(worked))
        assert set(worked) == foreign.ready | foreign.running | foreign.later, "nothing is lost"


def go_by_the_book(place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = place.foreign
    place.make()
    before = place.rows()
    columns = [column.name for column in place.table().columns]

    if foreign.refused:
        for way in (("--apply", "--yes"), ("--sql",), ("--declaration",)):
            assert place.adopt(*way) == 2
            said = capsys.readouterr()
            assert foreign.refused in said.err
            assert said.out == ""
        assert [column.name for column in place.table().columns] == columns
        assert place.rows() == before

    assert place.adopt(*foreign.options, "--declaration") == 0
    declaration = capsys.readouterr().out
    assert lines_of(declaration) <= OWN_LINES, declaration
    (place.folder / "their_app.py").write_text(declaration)
    monkeypatch.setenv("DATABASE_URL", place.url)
    importlib.invalidate_caches()

    adopt = ["adopt", foreign.table, "--app", "their_app:mill"]
    assert run([*adopt, *foreign.conditions]) == 5
    assert "nothing says" not in capsys.readouterr().out
    assert run([*adopt, *foreign.conditions, "--apply", "--yes"]) == 0, capsys.readouterr().err
    assert run(adopt) == 0, "a second look finds nothing to do"
    assert place.adopt(*foreign.options) == 0, capsys.readouterr().out
    mill: rm.Mill = sys.modules["their_app"].mill
    mapped = {role: column.name for role, column in next(iter(mill.queues.values())).columns.items()}
    assert foreign.columns.items() <= mapped.items()

    if foreign.killed:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(place.folder), *sys.path])}
        worker = run_python("-c", KILLED, env=environment, cwd=place.folder)
        assert worker.returncode == -signal.SIGKILL
    asyncio.run(work_to_the_end(mill, foreign))

    after = place.rows(columns)
    theirs = [name for name in columns if name not in mapped.values()]
    assert after.keys() == before.keys(), "no row is gone"
    keys = foreign.ready | foreign.running | foreign.later
    for key, row in before.items():
        worked = (key[0] if foreign.table == "events" else key) in keys
        kept = theirs if worked else columns
        assert {name: after[key][name] for name in kept} == {name: row[name] for name in kept}, "nothing is overwritten"


@pytest.mark.parametrize("foreign", FOREIGN, ids=lambda foreign: foreign.name)
def test_it_is_adopted_by_the_book(
    database_url: str, foreign: Foreign, folder: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_by_the_book(Place(folder, database_url, foreign), capsys, monkeypatch)


@pytest.mark.parametrize("foreign", ON_POSTGRES, ids=lambda foreign: foreign.name)
def test_it_is_adopted_by_the_book_on_postgres(
    pg_url: str, foreign: Foreign, folder: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_by_the_book(Place(folder, pg_url, foreign), capsys, monkeypatch)


def run_script(url: str, script: Path) -> None:
    """As a person would: with psql, or what sqlite3 makes of it."""
    if url.startswith("sqlite"):
        connection = sqlite3.connect(str(parse_url(url).database))
        try:
            connection.executescript(script.read_text())
        finally:
            connection.close()
        return
    psql = find_programs() / "psql"
    subprocess.run([psql, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", script, url], check=True, timeout=120)


@pytest.mark.parametrize("foreign", FOREIGN, ids=lambda foreign: foreign.name)
def test_the_printed_migration_runs_from_top_to_bottom(
    database_url: str, foreign: Foreign, folder: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(folder, database_url, foreign)
    place.make()
    assert place.adopt(*foreign.options, "--declaration") == 0
    (folder / "their_app.py").write_text(capsys.readouterr().out)
    monkeypatch.setenv("DATABASE_URL", database_url)
    importlib.invalidate_caches()
    assert place.adopt(*foreign.options, "--sql") == 0
    (folder / "adopt.sql").write_text(capsys.readouterr().out)

    run_script(database_url, folder / "adopt.sql")

    assert place.adopt(*foreign.options) == 0, capsys.readouterr().out
    mill: rm.Mill = importlib.import_module("their_app").mill
    asyncio.run(work_to_the_end(mill, foreign))


def test_the_printed_migration_of_a_big_table_runs_too(pg_url: str, folder: Path, capsys: Any) -> None:
    foreign = Foreign(
        "big",
        "jobs",
        (
            "CREATE TABLE jobs (id bigserial PRIMARY KEY, processed boolean NOT NULL DEFAULT false)",
            "INSERT INTO jobs (processed) SELECT n % 3 = 0 FROM generate_series(1, 12000) AS n",
        ),
        ready=frozenset(),
    )
    place = Place(folder, pg_url, foreign)
    place.make()
    assert place.adopt("--sql") == 0
    script = capsys.readouterr().out
    assert "CREATE INDEX CONCURRENTLY" in script
    (folder / "adopt.sql").write_text(script)

    run_script(pg_url, folder / "adopt.sql")

    assert place.adopt() == 0
    with psycopg.connect(pg_url) as connection:
        found = connection.execute("SELECT state, count(*) FROM jobs GROUP BY 1 ORDER BY 1").fetchall()
    assert found == [("done", 4000), ("ready", 8000)]


def test_a_check_that_can_not_be_changed_is_refused_with_the_way_out(
    sqlite_url: str, folder: Path, capsys: Any
) -> None:
    foreign = Foreign(
        "check",
        "jobs",
        ("CREATE TABLE jobs (id INTEGER PRIMARY KEY, status TEXT CHECK (status IN ('new', 'done')))",),
        ready=frozenset(),
    )
    place = Place(folder, sqlite_url, foreign)
    place.make()

    assert place.adopt("--apply", "--yes") == 2

    said = capsys.readouterr().err
    assert "does not allow 'processing', 'failed'" in said
    assert "rebuild the table" in said
