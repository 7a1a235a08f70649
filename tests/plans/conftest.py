"""A table of a million rows, filled once; every statement explained under every regime of statistics."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any

import psycopg
import pytest

from rowmill import Mill
from rowmill.store.indexes import prune_index
from rowmill.store.postgres.session import SESSION
from tests.plans.plan import Plan
from tests.plans.statements import (
    FILL,
    PLAIN,
    QUEUES,
    Statement,
    claims,
    claims_in_order,
    fenced,
    sql_of,
    upkeep_statements,
)
from tests.support.databases import fresh_database
from tests.support.server import server_url

CACHED = "cached while the table was empty"
STALE = "of the time when the table was empty"
NONE = "none"
FRESH = "fresh"
REGIMES = (CACHED, STALE, NONE, FRESH)
MODES = ("custom", "generic")

NEVER_LOOKED = """
DELETE FROM pg_statistic WHERE starelid = '{0}'::regclass;
UPDATE pg_class SET reltuples = -1, relpages = 0
WHERE oid = '{0}'::regclass OR oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = '{0}'::regclass)
"""


class Session:
    """A connection with the statements prepared on it, as a worker's or as the server would have it."""

    def __init__(self, url: str, statements: list[Statement], *, by_worker: bool, mode: str) -> None:
        self.statements = [statement for statement in statements if statement.by_worker == by_worker]
        settings = {name: SESSION[name] for name in SESSION if by_worker and " " not in SESSION[name]}
        options = " ".join(f"-c {name}={value}" for name, value in settings.items())
        self.connection = psycopg.connect(url, autocommit=True, options=options)
        self.connection.execute("SET statement_timeout = '20s'")
        self.connection.execute(f"SET plan_cache_mode = force_{mode}_plan")
        for place, statement in enumerate(self.statements):
            self.connection.execute(f"PREPARE s{place} AS {statement.text}")

    def explain(self) -> dict[str, Plan]:
        """The plan of each, carried out and undone; of one that takes very long, none."""
        found = {}
        for place, statement in enumerate(self.statements):
            values = ", ".join(literal(value) for value in statement.arguments)
            execute = f"EXECUTE s{place}({values})" if values else f"EXECUTE s{place}"
            with suppress(psycopg.errors.QueryCanceled), self.connection.transaction(force_rollback=True):
                row = self.connection.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {execute}").fetchone()
                assert row is not None
                found[statement.name] = Plan(row[0][0]["Plan"])
        self.connection.close()
        return found

    def use(self) -> None:
        """Carry each out once, so that its plan is made and kept."""
        for place, statement in enumerate(self.statements):
            values = ", ".join(literal(value) for value in statement.arguments)
            with self.connection.transaction(force_rollback=True):
                self.connection.execute(f"EXECUTE s{place}({values})" if values else f"EXECUTE s{place}")


def literal(value: Any) -> str:
    """A parameter as the server reads it, without a type."""
    if isinstance(value, (list, tuple)):
        parts = ", ".join('"' + text(part).replace('"', '\\"') + '"' for part in value)
        return f"'{{{parts}}}'"
    return f"'{text(value)}'"


def text(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


class Plans:
    def __init__(self, url: str) -> None:
        self.url = url
        self.statements = [*claims(), *claims_in_order(), *fenced(), *asyncio.run(self._set_up())]
        self.found: dict[tuple[str, str], dict[str, Plan]] = {}
        with psycopg.connect(url, autocommit=True) as connection:
            for queue in QUEUES:
                connection.execute(f"VACUUM ANALYZE {queue.name}")
            kept = self._sessions("generic")
            for session in kept:
                session.use()
            for queue in QUEUES:
                connection.execute(FILL % queue.name)
            self.found[CACHED, "generic"] = self._explain(kept)
            for regime, prepare in ((STALE, "SELECT"), (FRESH, "ANALYZE {0}"), (NONE, NEVER_LOOKED)):
                for queue in QUEUES:
                    connection.execute(prepare.format(queue.name))
                for mode in MODES:
                    self.found[regime, mode] = self._explain(self._sessions(mode))

    def _sessions(self, mode: str) -> list[Session]:
        return [Session(self.url, self.statements, by_worker=by, mode=mode) for by in (True, False)]

    def _explain(self, sessions: list[Session]) -> dict[str, Plan]:
        return {name: plan for session in sessions for name, plan in session.explain().items()}

    async def _set_up(self) -> list[Statement]:
        mill = Mill(self.url)
        async with mill.opened():
            await mill.migrate()
            async with mill.store.engine.begin() as connection:
                for queue in QUEUES:
                    await connection.run_sync(queue.table.create)
                    await connection.exec_driver_sql(f"ALTER TABLE {queue.name} SET (autovacuum_enabled = false)")
                await connection.exec_driver_sql(prune_index(sql_of(PLAIN)).create(PLAIN.name))
            return await upkeep_statements(mill)


@pytest.fixture(scope="session")
def plans(pytestconfig: pytest.Config) -> Iterator[Plans]:
    with fresh_database(server_url(pytestconfig)) as url:
        yield Plans(url)
