"""What is in a row, and what a handler says of it, is in no log, event or message of ours."""

import asyncio
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from rowmill.model.judge import judge
from rowmill.store.own.schema import own_tables
from tests.conformance.fleet import jobs, worker
from tests.security import secret_app
from tests.security.secret_app import ALLOWED, KINDS, SECRET, Base, Letter
from tests.support.named import REPOSITORY
from tests.support.python import run_python


def rowmill(url: str, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """A command of its own process, as an operator starts it."""
    done = run_python(
        "-m", "rowmill", *arguments, "--app", "tests.security.secret_app", cwd=REPOSITORY,
        env={**os.environ, "ROWMILL_DATABASE_URL": url, "PYTHONPATH": str(REPOSITORY), **environment},
    )  # fmt: skip
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


async def prepared(url: str) -> None:
    secret_app.mill.move_to(url)
    await secret_app.mill.run(lambda connection: Base.metadata.create_all(connection))
    await secret_app.mill.migrate()
    await secret_app.mill.run(secret_app.fill)


def read(statement: "sa.Select[*tuple[Any, ...]]") -> list[Any]:
    return asyncio.run(secret_app.mill.run(lambda connection: list(connection.execute(statement).all())))


@pytest.mark.parametrize("style", ["text", "json"])
def test_a_worker_tells_no_secret(database_url: str, tmp_path: Path, style: str) -> None:
    """In its log at the finest level, to its observers, and, of values that the database refused, on the row."""
    asyncio.run(prepared(database_url))
    heard = tmp_path / "heard"

    said = rowmill(database_url, "drain", "--log-level", "debug", "--log-format", style, HEARD=str(heard))

    assert said.returncode == 0, said.stderr
    assert SECRET not in said.stdout + said.stderr
    assert "observer failed" in said.stderr
    events = heard.read_text()
    assert events.count("settled") > len(KINDS)
    assert SECRET not in events
    rows = read(sa.select(Letter.kind, Letter.state, Letter.error))
    assert len(rows) == len(KINDS) + 1
    told = {row.kind for row in rows if SECRET in (row.error or "")}
    assert told <= ALLOWED
    assert {"raised", "permanent"} <= told
    own = own_tables(secret_app.mill.store.dialect.name).attempt
    failed = {row.key for row in read(sa.select(own).where(own.c.code == "value_refused"))}
    assert len(failed) >= 6
    codes = {row.code for row in read(sa.select(own.c.code))}
    assert not any(SECRET in code for code in codes)
    messages = read(sa.select(own.c.message).where(own.c.code.in_(["value_refused", "unreadable", "move_refused"])))
    assert not any(SECRET in row.message for row in messages)


@pytest.mark.parametrize("debug", [[], ["--debug"]], ids=["plain", "debug"])
def test_a_claim_that_the_table_refuses_tells_no_secret(database_url: str, debug: list[str]) -> None:
    """A trigger of the team's own quotes the row. The worker ends, and says where, not what."""
    asyncio.run(prepared(database_url))
    if database_url.startswith("postgresql"):
        ddl = [
            "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'no: %', OLD.body; END $$",
            "CREATE TRIGGER no BEFORE UPDATE ON letter FOR EACH ROW EXECUTE FUNCTION no()",
        ]
    else:
        ddl = [f"CREATE TRIGGER no BEFORE UPDATE ON letter BEGIN SELECT RAISE(ABORT, 'no: {SECRET}'); END"]
    for statement in ddl:
        asyncio.run(secret_app.mill.run(lambda c, s=statement: c.exec_driver_sql(s).close()))  # type: ignore[misc]

    said = rowmill(database_url, *debug, "drain", "--log-level", "debug")

    assert said.returncode == 1
    assert "the table refuses it" in said.stderr
    assert ("Traceback" in said.stderr) == bool(debug)
    assert SECRET not in said.stdout + said.stderr


def test_commands_that_look_tell_no_secret(database_url: str) -> None:
    """`list` and `show` show rows, and are asked for that. The others count."""
    asyncio.run(prepared(database_url))
    rowmill(database_url, "drain")
    for command in (["stats"], ["why", "letter", "5"], ["doctor"], ["adopt", "letter"], ["adopt", "copy"], ["migrate"]):
        for style in ([], ["--json"]):
            said = rowmill(database_url, *command, *style)
            assert said.returncode in (0, 5), said.stderr
            assert SECRET not in said.stdout + said.stderr, command


async def test_nothing_of_ours_shows_a_row_when_it_is_printed(database_url: str) -> None:
    async with worker(database_url, lambda mill: mill.queue(jobs())) as member:
        await member.put({"title": SECRET})
        [lease] = await member.claim(1)
        verdict = judge(lease, {"title": SECRET}, 0.0)
        failed = judge(lease, ValueError(SECRET), 0.0)
        for thing in (lease, lease.row, member.queue, member.mill, verdict, failed, member.mill.settings, lease.step):
            assert SECRET not in repr(thing) + str(thing)


async def test_a_key_keeps_to_its_line_of_the_log(database_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """A key may be allowed to stand in the log, but not to write a line of its own into it."""
    key = sa.Column("id", sa.Text, primary_key=True)
    async with worker(database_url, lambda mill: mill.queue(jobs(key=[key]))) as member:

        @member.queue.handler()
        async def fail(lease: Any) -> None:
            raise RuntimeError

        await member.put({"id": "1\n2026-01-01 00:00:00 ERROR forged\x1b[2J"})
        with caplog.at_level("DEBUG", "rowmill"):
            await member.bench.drain()
    lines = [line for record in caplog.records for line in record.getMessage().splitlines()]
    assert any("forged" in line for line in lines)
    assert not any(line.startswith("2026-01-01") or "\x1b" in line for line in lines)
