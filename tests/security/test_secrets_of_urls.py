"""A password is in no message, however the database refuses us, and however the URL is written."""

import asyncio
import gc
import logging
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from rowmill import Mill
from rowmill.adopt import AdoptOptions, carry_out, examine_table
from rowmill.adopt.apply import AdoptionFailed
from rowmill.cli.adopt import AdoptTarget
from rowmill.cli.app import GlobalOptions
from rowmill.cli.main import run
from rowmill.cli.process import SIGNALS
from tests.security.secret_app import SECRET, letters, mill
from tests.support.postgres import TemporaryPostgres

pytestmark = pytest.mark.xdist_group("locked server")

COMMANDS = [
    ["work"], ["drain"], ["stats"], ["list", "letter"], ["show", "letter", "1"], ["why", "letter", "1"], ["doctor"],
    ["adopt", "letter"], ["adopt", "other"], ["migrate"], ["migrate", "--check"], ["pause", "letter"],
    ["resume", "letter"], ["requeue", "letter", "--yes"], ["rescue", "--yes"],
]  # fmt: skip
each_command = pytest.mark.parametrize("command", COMMANDS, ids=" ".join)


@pytest.fixture(scope="module")
def locked() -> Iterator[str]:
    """A server that asks role locked for its password, which is another than ours; host and database."""
    with TemporaryPostgres() as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("CREATE ROLE locked LOGIN PASSWORD 'another'")
            [place] = connection.execute("SHOW hba_file").fetchone() or ("",)
            file = Path(place)
            file.write_text("host all locked 127.0.0.1/32 scram-sha-256\n" + file.read_text())
            connection.execute("SELECT pg_reload_conf()")
        yield f"127.0.0.1:{server.port}/postgres"


@pytest.fixture(scope="module")
def nowhere() -> str:
    """A port at which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}/postgres"


@pytest.fixture
def as_before() -> Iterator[None]:
    """A worker takes signals, the log and the garbage collector over: they are given back."""
    signals = {number: signal.getsignal(number) for number in SIGNALS}
    levels = {name: logging.getLogger(name).level for name in ("", "rowmill", "aiosqlite", "sqlalchemy")}
    handlers, threshold = list(logging.getLogger().handlers), gc.get_threshold()
    yield
    for number, handler in signals.items():
        signal.signal(number, handler)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    logging.getLogger().handlers[:] = handlers
    gc.unfreeze()
    gc.set_threshold(*threshold)


@pytest.fixture
def said(capfd: pytest.CaptureFixture[str], as_before: None) -> Any:
    """Runs a command, and answers its exit code and all that it wrote."""

    def runs(url: str, command: list[str]) -> tuple[int, str]:
        before = mill.url.render_as_string(hide_password=False)
        try:
            code = run(["--debug", "--app", "tests.security.secret_app", "--database-url", url, *command])
        finally:
            mill.move_to(before)
        return code, "".join(capfd.readouterr())

    return runs


@each_command
def test_a_wrong_password_is_not_told(locked: str, said: Any, command: list[str]) -> None:
    code, text = said(f"postgresql://locked:{SECRET}@{locked}", command)
    assert (code, SECRET in text) == (3, False), text
    assert "password authentication failed" in text


@pytest.mark.parametrize("command", [["work"], ["stats"], ["doctor"], ["adopt", "letter"]], ids=" ".join)
def test_nor_one_among_the_parameters(locked: str, said: Any, command: list[str]) -> None:
    host, _, database = locked.partition("/")
    name, _, port = host.partition(":")
    forms = [
        f"postgresql://{locked}?user=locked&password={SECRET}",
        f"postgresql:///{database}?host={name}&port={port}&user=locked&password={SECRET}",
        f"postgresql+asyncpg://locked@{locked}?password={SECRET}",
        f"postgres://locked:{SECRET}@{locked}?sslmode=prefer&application_name=x&sslpassword={SECRET}",
    ]
    for form in forms:
        code, text = said(form, command)
        assert (code, SECRET in text) == (3, False), text


@each_command
def test_nor_when_nobody_answers(nowhere: str, said: Any, command: list[str]) -> None:
    code, text = said(f"postgresql://locked:{SECRET}@{nowhere}", command)
    assert (code, SECRET in text) == (3, False), text


@pytest.mark.parametrize(
    "url",
    [
        f"host=127.0.0.1 user=locked password={SECRET}",
        f"postgresql://locked:x@127.0.0.1:{SECRET}/postgres",
        f"postgresql://locked:{SECRET}/more@127.0.0.1/postgres",
        f"mysql://locked:{SECRET}@127.0.0.1/postgres",
        f"postgresql:/locked:{SECRET}@127.0.0.1",
        f"postgresql://locked:{SECRET}@[127.0.0.1/postgres",
        SECRET,
    ],
)
def test_nor_one_of_a_url_that_can_not_be_read(said: Any, url: str) -> None:
    code, text = said(url, ["stats"])
    assert (code, SECRET in text) == (3, False), text


def test_nor_one_that_is_printed() -> None:
    url = f"postgresql://locked:{SECRET}@127.0.0.1/x?password={SECRET}"
    for thing in (Mill(url), GlobalOptions(database_url=url), AdoptTarget("x", url)):
        assert SECRET not in repr(thing) + str(thing)
    assert "locked:***@127.0.0.1/x" in repr(Mill(url))


async def test_the_statement_that_failed_is_told_without_its_values(database_url: str) -> None:
    """An error of SQLAlchemy's quotes them, and becomes the message of the attempt, or a line of somebody's log."""
    other = Mill(database_url)
    table = letters.table.to_metadata(sa.MetaData())
    table.indexes.clear()  # they are spelled for the last database that this mill was moved to
    await other.run(lambda connection: table.create(connection))
    bad = letters.insert({"kind": SECRET, "needed": None})
    async with other.opened() as store:
        with pytest.raises(sa.exc.IntegrityError) as raised:
            await store.run(lambda connection: connection.execute(bad).close())
        [sql] = [line for line in str(raised.value).splitlines() if line.startswith("[SQL: ")]
        assert "INSERT INTO letter" in sql
        assert "parameters:" not in str(raised.value)
        with pytest.raises(sa.exc.IntegrityError) as raised, store.sync_engine.begin() as connection:
            await asyncio.to_thread(connection.execute, bad)
        assert "parameters:" not in str(raised.value)


async def test_an_adoption_that_fails_does_not_quote_the_rows(pg_url: str) -> None:
    """A trigger keeps the rows from being filled, and says which."""
    other = Mill(pg_url)
    for statement in (
        "CREATE TABLE task (id serial PRIMARY KEY, secret text, done boolean)",
        f"INSERT INTO task (secret, done) VALUES ('{SECRET}', true)",
        "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no: %', OLD.secret; END $$",
        "CREATE TRIGGER no BEFORE UPDATE ON task FOR EACH ROW EXECUTE FUNCTION no()",
    ):
        await other.run(lambda connection, text=statement: connection.exec_driver_sql(text).close())  # type: ignore[misc]
    async with other.opened() as store:
        found = await store.run(lambda connection: examine_table(connection, "task", AdoptOptions()))
        with pytest.raises(AdoptionFailed, match="the database says: RaiseError") as raised:
            await carry_out(store, found.plan)
    assert SECRET not in str(raised.value)
