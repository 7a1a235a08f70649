"""`rowmill adopt` on the command line: what it prints, what it changes, with which code it ends."""

import json
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from rowmill.cli.main import run
from rowmill.store import expressions
from rowmill.store.open import open_store, parse_url
from tests.adopt.tables import CODES, PLAIN, Handmade

pytestmark = pytest.mark.empty_database

Printed = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder without a pyproject.toml, and an environment that names neither a mill nor a database."""
    for name in ("ROWMILL_APP", "ROWMILL_DATABASE_URL", "DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def make(url: str, handmade: Handmade) -> None:
    engine = open_store(parse_url(url)).sync_engine
    with engine.begin() as connection:
        tables = handmade.postgres if engine.dialect.name == "postgresql" else handmade.sqlite
        for statement in (*tables, *handmade.inserts()):
            expressions.run(connection, statement)
    engine.dispose()


def query(url: str, text: str) -> list[Any]:
    engine = open_store(parse_url(url)).sync_engine
    try:
        with engine.connect() as connection:
            return [tuple(row) for row in connection.execute(sa.text(text))]
    finally:
        engine.dispose()


def answer(printed: Printed) -> Any:
    return json.loads(printed.readouterr().out)


def test_a_look_prints_findings_migration_and_declaration_and_ends_with_5(database_url: str, capsys: Printed) -> None:
    make(database_url, PLAIN)

    code = run(["adopt", "enrichment_requests", "--database-url", database_url])

    text = capsys.readouterr().out
    assert code == 5
    assert "columns lease, leased_until, finished_at are missing" in text
    assert "ADD COLUMN" in text
    assert "mill.queue(" in text
    assert "lease         lease   (to be added)" in text
    with pytest.raises(sa.exc.DBAPIError):
        query(database_url, "SELECT lease FROM enrichment_requests")


def test_a_look_names_the_own_tables_in_a_line_and_sql_has_their_statements(database_url: str, capsys: Printed) -> None:
    make(database_url, PLAIN)

    run(["adopt", "enrichment_requests", "--database-url", database_url])
    look = capsys.readouterr().out
    run(["adopt", "enrichment_requests", "--database-url", database_url, "--sql"])
    script = capsys.readouterr().out

    assert "CREATE TABLE" not in look
    assert "-- (rowmill adopt --sql prints the statements)" in look
    assert len(look.splitlines()) < 100, "two screens"
    assert script.count("CREATE TABLE") > 10


def test_the_printed_declaration_has_no_handler_that_would_finish_rows_without_work(
    database_url: str, capsys: Printed, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(database_url, PLAIN)
    adopt = ["adopt", "enrichment_requests", "--database-url", database_url]
    before = query(database_url, "SELECT status, count(*) FROM enrichment_requests GROUP BY 1 ORDER BY 1")
    run([*adopt, "--declaration"])
    (elsewhere / "without_handler.py").write_text(capsys.readouterr().out)
    run([*adopt, "--apply", "--yes"])
    monkeypatch.syspath_prepend(str(elsewhere))
    monkeypatch.delitem(sys.modules, "without_handler", raising=False)
    monkeypatch.setenv("DATABASE_URL", database_url)

    assert run(["drain", "without_handler:mill"]) == 2

    assert "this mill has no handlers to run" in capsys.readouterr().err
    assert query(database_url, "SELECT status, count(*) FROM enrichment_requests GROUP BY 1 ORDER BY 1") == before


def test_apply_makes_it_and_a_second_look_ends_with_0(database_url: str, capsys: Printed) -> None:
    make(database_url, PLAIN)

    assert run(["adopt", "enrichment_requests", "--database-url", database_url, "--apply", "--yes", "--json"]) == 0
    assert answer(capsys)["applied"] is True
    assert run(["adopt", "enrichment_requests", "--database-url", database_url, "--json"]) == 0
    assert answer(capsys)["missing"] == []
    assert run(["adopt", "enrichment_requests", "--database-url", database_url, "--apply"]) == 0
    assert "nothing to do" in capsys.readouterr().out
    assert query(database_url, "SELECT count(*) FROM enrichment_requests WHERE leased_until IS NOT NULL") == [(3,)]


def test_json_says_everything(database_url: str, capsys: Printed) -> None:
    make(database_url, PLAIN)

    assert run(["adopt", "enrichment_requests", "--database-url", database_url, "--json"]) == 5

    found = answer(capsys)
    assert found["columns"]["available_at"] == "next_retry_at"
    assert found["states"] == {"ready": ["pending"], "running": ["processing"], "done": ["done"], "dead": ["failed"]}
    assert found["seen"] == {"pending": 5, "processing": 3, "done": 4, "failed": 2}
    assert {step["part"] for step in found["missing"]} >= {"column", "own tables", "index", "rows"}


def test_whoever_works_on_the_table_by_hand_is_to_be_stopped_first(database_url: str, capsys: Printed) -> None:
    make(database_url, PLAIN)

    run(["adopt", "enrichment_requests", "--database-url", database_url])
    assert "stop what works on these rows now" in capsys.readouterr().out
    run(["adopt", "enrichment_requests", "--database-url", database_url, "--apply"])
    assert "stop what works on these rows now" in capsys.readouterr().err
    run(["adopt", "enrichment_requests", "--database-url", database_url, "--apply", "--yes"])
    capsys.readouterr()
    run(["adopt", "enrichment_requests", "--database-url", database_url])
    assert "stop what works" not in capsys.readouterr().out, "it is a queue now"


def test_nothing_is_changed_without_a_yes(database_url: str, capsys: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    make(database_url, PLAIN)

    assert run(["adopt", "enrichment_requests", "--database-url", database_url, "--apply"]) == 2
    assert "Add --yes" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.confirm", lambda *_, **__: False)
    assert run(["adopt", "enrichment_requests", "--database-url", database_url, "--apply"]) == 1

    assert "nothing was changed" in capsys.readouterr().err
    assert run(["adopt", "enrichment_requests", "--database-url", database_url]) == 5


def test_a_guess_is_not_applied_until_it_is_confirmed(database_url: str, capsys: Printed) -> None:
    make(database_url, CODES)
    command = ["adopt", "jobs", "--database-url", database_url, "--apply", "--yes"]

    assert run(command) == 2
    assert "not on a guess" in capsys.readouterr().err
    words = ["--ready", "0", "--running", "1", "--done", "2", "--dead", "9"]
    assert run([*command, *words]) == 0
    assert query(database_url, "SELECT count(*) FROM jobs WHERE leased_until IS NOT NULL") == [(3,)]


def test_doubts_can_be_overruled(database_url: str) -> None:
    make(database_url, CODES)

    assert run(["adopt", "jobs", "--database-url", database_url, "--apply", "--yes", "--sure"]) == 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["adopt", "nope"], "there is no table nope"),
        (["adopt", "enrichment_requests", "--column", "error"], "PART=COLUMN"),
        (["adopt", "enrichment_requests", "--column", "error=nope"], "no column nope"),
        (["adopt", "enrichment_requests", "--state-column", "nope"], "no column nope"),
        (["adopt", "enrichment_requests", "--app", "nowhere:mill"], "no module nowhere"),
        (["adopt", "enrichment_requests", "--alembic", "."], "no Alembic environment"),
    ],
)
def test_a_wrong_call_says_what_to_write(
    database_url: str, capsys: Printed, arguments: list[str], complaint: str
) -> None:
    make(database_url, PLAIN)

    assert run([*arguments, "--database-url", database_url]) == 2
    assert complaint in capsys.readouterr().err


def test_without_a_database_it_asks_which(capsys: Printed) -> None:
    assert run(["adopt", "jobs"]) == 2
    assert "which database?" in capsys.readouterr().err


def test_a_sqlite_file_that_is_not_there_is_not_made(elsewhere: Path, capsys: Printed) -> None:
    assert run(["adopt", "jobs", "--database-url", "sqlite:///typo.db"]) == 3
    assert "no SQLite file typo.db" in capsys.readouterr().err
    assert not (elsewhere / "typo.db").exists()


APP = """
import sqlalchemy as sa
import rowmill as rm

mill = rm.Mill({url!r})
table = sa.Table(
    "files", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True), sa.Column("status", sa.Text), {more}
)
files = mill.queue(
    table, name="intake", columns=rm.Columns(state="status"), states=rm.States("new", "busy", "ok", "bad"), lease=40
)
"""
MORE = """
    sa.Column("attempts", sa.Integer, nullable=False, server_default="0"), sa.Column("lease", sa.BigInteger),
    sa.Column("available_at", sa.DateTime), sa.Column("leased_until", sa.DateTime), sa.Column("error", sa.Text),
    sa.Column("finished_at", sa.DateTime),
"""


@pytest.mark.parametrize("name", ["intake", "files"])
def test_a_declared_queue_is_adopted_as_its_code_says(
    elsewhere: Path, capsys: Printed, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.syspath_prepend(str(elsewhere))
    monkeypatch.delitem(sys.modules, "declared_app", raising=False)
    (elsewhere / "declared_app.py").write_text(APP.format(url="sqlite:///files.db", more=MORE))
    with sqlite3.connect(elsewhere / "files.db") as connection:
        connection.execute("CREATE TABLE files (id INTEGER PRIMARY KEY, status TEXT)")
        connection.execute("INSERT INTO files VALUES (1, 'busy')")

    assert run(["adopt", name, "--app", "declared_app:mill", "--ready", "x"]) == 2
    assert run(["adopt", name, "--app", "declared_app:mill", "--apply", "--yes", "--json"]) == 0

    assert answer(capsys)["declaration"] is None
    assert run(["adopt", name, "--app", "declared_app:mill"]) == 0
    monkeypatch.delitem(sys.modules, "declared_app")


@pytest.fixture
def undeclarable(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An app whose Table lacks the columns of a queue."""
    monkeypatch.syspath_prepend(str(elsewhere))
    monkeypatch.delitem(sys.modules, "broken_app", raising=False)
    monkeypatch.setenv("DATABASE_URL", "sqlite:///files.db")
    (elsewhere / "broken_app.py").write_text(APP.format(url="sqlite:///files.db", more=""))
    with sqlite3.connect(elsewhere / "files.db") as connection:
        connection.execute("CREATE TABLE files (id INTEGER PRIMARY KEY, status TEXT)")
    return "broken_app:mill"


def test_a_mill_that_is_named_and_cannot_be_declared_is_not_replaced_by_a_guess(
    undeclarable: str, capsys: Printed
) -> None:
    assert run(["adopt", "files", "--app", undeclarable]) == 2

    printed = capsys.readouterr()
    assert "lacks column lease" in printed.err
    assert "your Table or class must name them first" in printed.err
    assert printed.out == ""


def test_a_mill_that_cannot_be_declared_yet_is_looked_at_by_its_database(
    undeclarable: str, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its error says "rowmill adopt files": that must print what to add, and change nothing on a guess."""
    monkeypatch.setenv("ROWMILL_APP", undeclarable)

    assert run(["adopt", "files"]) == 5
    printed = capsys.readouterr()
    assert "this is a guess from the database alone" in printed.out
    assert "columns attempts, available_at" in printed.out

    assert run(["adopt", "files", "--apply", "--yes", "--sure"]) == 2
    assert "not on a guess, where code says it" in capsys.readouterr().err


def test_all_notes_are_printed_although_nobody_is_asked(database_url: str, capsys: Printed) -> None:
    make(database_url, PLAIN)

    run(["adopt", "enrichment_requests", "--database-url", database_url, "--apply", "--yes"])

    assert "Note: before you apply this, stop what works on these rows now" in capsys.readouterr().err
