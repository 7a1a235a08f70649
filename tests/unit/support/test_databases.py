"""Each test gets a database of its own, on the server that the environment names or on ours."""

import psycopg
import pytest
from sqlalchemy import make_url

from tests.support.databases import fresh_database, given_server


@pytest.mark.parametrize("turn", [1, 2])
def test_a_database_starts_empty(pg_url: str, turn: int) -> None:
    with psycopg.connect(pg_url) as connection:
        connection.execute("CREATE TABLE only_here (turn int)")


def test_a_database_is_dropped_even_with_a_connection_left_open(pg_url: str) -> None:
    with fresh_database(pg_url) as url:
        left_open = psycopg.connect(url)

    with left_open, pytest.raises(psycopg.OperationalError):
        left_open.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(url)


def test_either_store_is_named_by_a_plain_url(database_url: str) -> None:
    assert make_url(database_url).drivername in ("postgresql", "sqlite")


@pytest.mark.parametrize(
    ("variables", "server"),
    [
        ({}, None),
        ({"DATABASE_URL": "sqlite:///app.db"}, None),
        ({"DATABASE_URL": "postgres://me:secret@db/app"}, "postgresql://me:secret@db/app"),
        (
            {
                "DATABASE_URL": "postgresql://db/app",
                "ROWMILL_TEST_DATABASE_URL": "postgresql+asyncpg://db/test",
            },
            "postgresql://db/test",
        ),
    ],
)
def test_the_environment_names_the_server(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], server: str | None
) -> None:
    for name in ("DATABASE_URL", "ROWMILL_TEST_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert given_server() == server
