"""Fixtures for both stores. One PostgreSQL server serves the whole run; each test gets its own database."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.databases import fresh_database
from tests.support.server import server_url, stop_server


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """xdist, in the controller: hand each worker the server's address."""
    node.workerinput["postgres"] = server_url(node.config)


def pytest_unconfigure(config: pytest.Config) -> None:
    stop_server(config)


@pytest.fixture(autouse=True)
def _same_log_levels() -> Iterator[None]:
    """A command that runs in this process sets the levels of its log, and later tests look for records below them."""
    loggers = [logging.getLogger(name) for name in (None, "rowmill", "aiosqlite", "sqlalchemy", "alembic")]
    before = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, before, strict=True):
        logger.setLevel(level)


@pytest.fixture
def pg_url(pytestconfig: pytest.Config) -> Iterator[str]:
    """A fresh PostgreSQL database."""
    with fresh_database(server_url(pytestconfig)) as url:
        yield url


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """A SQLite file that does not exist yet."""
    return f"sqlite:///{tmp_path / 'rowmill.db'}"


@pytest.fixture(params=["postgres", "sqlite"])
def database_url(request: pytest.FixtureRequest) -> str:
    """Either store: a test that asks for it runs once on each."""
    fixture = {"postgres": "pg_url", "sqlite": "sqlite_url"}[request.param]
    return str(request.getfixturevalue(fixture))
