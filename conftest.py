"""Fixtures for both stores. One PostgreSQL server serves the whole run; each test gets its own database."""

import asyncio
import gc
import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rowmill import Mill
from tests.support.databases import Databases, Prepare, SqliteTemplates
from tests.support.postgres import in_memory
from tests.support.python import start_fork_server
from tests.support.server import server_url, stop_server

EMPTY = "empty_database"
PARTS = 16
"""How many parts of the suite take turns in a run of several processes."""


def pytest_configure(config: pytest.Config) -> None:
    """Keep the files of tests in memory (on a disk, SQLite waits at every commit), let Ctrl-C be what it is, and
    have a process ready that others are forked from."""
    gc.disable()  # until the tests are collected: nothing is thrown away before
    if memory := in_memory():
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A job in the background is started so, and the processes that are interrupted in tests would inherit it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        start_fork_server()


def pytest_collection_finish() -> None:
    """Hold modules and tests, some 600,000 objects, out of the garbage collector: they stay until the end, and each
    full collection would take half a second to look at them. What the tests leave is looked at less often, too."""
    gc.freeze()
    gc.set_threshold(10_000)
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that need a PostgreSQL server, so that `-m "not postgres"` leaves them out. In a run of several
    processes, the longest begin: one that comes last would leave the others idle. The others come mixed."""
    for item in items:
        chosen = getattr(getattr(item, "callspec", None), "params", {}).get("database_url")
        if "pg_url" in getattr(item, "fixturenames", ()) or chosen == "postgres":
            item.add_marker("postgres")
    if hasattr(config, "workerinput"):
        items[:] = mixed(items)
        items.sort(key=lambda item: item.get_closest_marker("slow") is None)
        if config.getoption("loadgroup", False):
            name_groups(items)


def mixed(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests in an order in which each is followed by one from another part of the suite.

    Folders differ: one computes, another waits for leases and processes. If all processes of the run were in a folder
    that waits, the cores would idle. What a module shares is made once all the same, if its tests are an `xdist_group`.
    """
    part = -(-len(items) // PARTS)
    return [items[place] for first in range(part) for place in range(first, len(items), part)]


def name_groups(items: list[pytest.Item]) -> None:
    """Put the `xdist_group` of a test behind its id, so that one process runs the whole group.

    xdist 3.8 writes it where pytest 9.2 no longer reads it: every process would make what the group shares.
    """
    for item in items:
        groups = sorted({str(mark.args[0]) for mark in item.iter_markers("xdist_group")})
        if groups and hasattr(item, "_id"):
            item._id = type(item._id).parse(f"{item.nodeid}@{'_'.join(groups)}")


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


def install(url: str) -> None:
    """Create Rowmill's own tables."""
    asyncio.run(Mill(url).migrate())


@pytest.fixture(scope="session")
def prepare() -> Prepare:
    """What makes a database ready for the tests of a folder. It is done once, and copied for each test."""
    return install


@pytest.fixture(scope="session")
def databases(pytestconfig: pytest.Config) -> Iterator[Databases]:
    databases = Databases(server_url(pytestconfig))
    yield databases
    databases.close()


@pytest.fixture(scope="session")
def sqlite_templates(tmp_path_factory: pytest.TempPathFactory) -> SqliteTemplates:
    return SqliteTemplates(tmp_path_factory.mktemp("templates"))


@pytest.fixture
def pg_url(request: pytest.FixtureRequest, databases: Databases, prepare: Prepare) -> Iterator[str]:
    """A PostgreSQL database with Rowmill's own tables; an empty one for a test that is marked so."""
    empty = request.node.get_closest_marker(EMPTY) is not None
    with databases.fresh() if empty else databases.fresh(databases.template(prepare)) as url:
        yield url


@pytest.fixture
def sqlite_url(
    request: pytest.FixtureRequest, sqlite_templates: SqliteTemplates, prepare: Prepare, tmp_path: Path
) -> str:
    """A SQLite file with Rowmill's own tables; for a test that is marked so, one that does not exist yet."""
    file = tmp_path / "rowmill.db"
    if request.node.get_closest_marker(EMPTY) is None:
        sqlite_templates.copy(prepare, file)
    return f"sqlite:///{file}"


@pytest.fixture(params=["postgres", "sqlite"])
def database_url(request: pytest.FixtureRequest) -> str:
    """Either store: a test that asks for it runs once on each."""
    fixture = {"postgres": "pg_url", "sqlite": "sqlite_url"}[request.param]
    return str(request.getfixturevalue(fixture))
