"""What `rowmill grants` prints, for every kind of name, and what it refuses."""

import json

import psycopg
import pytest
from sqlalchemy import Connection

from rowmill import Mill
from rowmill.cli.main import run
from rowmill.store.own import privileges
from rowmill.store.own.privileges import Privilege
from tests.security.guild import APP, guild
from tests.security.hostile import BAD, bad_queue

pytestmark = pytest.mark.empty_database


def said(capsys: pytest.CaptureFixture[str], url: str, *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = run(["grants", "--app", APP, "--database-url", url, *arguments])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_statements_are_one_a_line_and_ready_to_run(pg_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with guild(pg_url, capsys):
        _, out, _ = said(capsys, pg_url, "orders", "--role", "w", "--result", "orders.topic")
        _, document, _ = said(capsys, pg_url, "orders", "--role", "w", "--result", "orders.topic", "--json")
    lines = out.splitlines()
    assert all(line.startswith("GRANT ") and line.endswith(" TO w;") for line in lines)
    assert "GRANT USAGE ON SCHEMA rowmill TO w;" in lines
    assert (
        "GRANT SELECT, UPDATE (state, attempts, available_at, lease, leased_until, error, finished_at, topic) "
        "ON TABLE orders TO w;"
    ) in lines
    assert not any("pieces" in line for line in lines)
    data = json.loads(document)
    assert data["statements"] == [line.removesuffix(";") for line in lines]
    assert (data["role"], data["for"], data["queues"]) == ("w", "worker", ["orders"])


def test_any_column_but_the_key_is_a_result_unless_they_are_named(
    pg_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with guild(pg_url, capsys):
        _, out, _ = said(capsys, pg_url, "orders", "--role", "w")
    [line] = [line for line in out.splitlines() if "ON TABLE orders" in line]
    assert "title" in line
    assert "customer" in line
    assert "id" not in line.replace("(", " ").replace(",", " ").split()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "which role"),
        (["--role", "public"], "everybody"),
        (["--role", "PUBLIC"], "everybody"),
        (["--role", "w", "--operator", "--producer"], "no operator"),
        (["--role", "w", "--result", "topic"], "QUEUE.COLUMN"),
        (["--role", "w", "--result", "orders.nothing"], "no handler may write"),
        (["--role", "w", "--result", "orders.id"], "no handler may write"),
        (["--role", "w", "elsewhere"], "no queue elsewhere"),
    ],
)
def test_what_can_not_be_granted_is_said(
    pg_url: str, capsys: pytest.CaptureFixture[str], arguments: list[str], reason: str
) -> None:
    code, out, err = said(capsys, pg_url, *arguments)
    assert (code, out, reason in err) == (2, "", True), err


def test_sqlite_goes_by_the_rights_of_the_file(sqlite_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = said(capsys, sqlite_url, "--role", "w")
    assert (code, out) == (0, "")
    assert "SQLite has no roles" in err
    assert json.loads(said(capsys, sqlite_url, "--role", "w", "--json")[1])["statements"] == []


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
async def test_hostile_names_are_granted_and_looked_up_as_they_are(pg_url: str, bad: str) -> None:
    """Of schema, table, columns and role. A worker's look at its rights finds all of them lacking, then none."""
    mill = Mill(pg_url)
    queue = bad_queue(mill, bad)
    await mill.migrate(tables=True)
    preparer = mill.store.dialect.identifier_preparer
    wanted, role = list(privileges.of_worker([mill.store.sql(queue)])), preparer.quote(f"r{bad}")

    def lacking(connection: Connection) -> list[Privilege]:
        connection.exec_driver_sql(f"SET LOCAL ROLE {role}").close()
        return privileges.lacking(connection, wanted)

    with psycopg.connect(pg_url, autocommit=True) as owner:
        owner.execute("CREATE TABLE bystander (id integer)")
        owner.execute(f"CREATE ROLE {role}".encode())
        try:
            assert await mill.run(lacking) == wanted
            for statement in privileges.grants(wanted, f"r{bad}", preparer):
                owner.execute(statement.encode())
            assert await mill.run(lacking) == []
        finally:
            owner.execute(f"DROP OWNED BY {role}".encode())
            owner.execute(f"DROP ROLE {role}".encode())
        owner.execute("SELECT 1 FROM bystander")
