"""Processes that work within limits, and a provider that counts."""

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from rowmill.model.limits import MICRO
from rowmill.store.limits.views import seconds
from rowmill.store.own.schema import own_tables
from tests.limits.app import LIMIT, PROVIDER, URL, build
from tests.support.postgres import REPOSITORY
from tests.support.provider import Provider, provider
from tests.support.python import DEVNULL, Python


class Fleet:
    def __init__(
        self, url: str, limit: str, rows: int, told: Provider, app: str = "tests.limits.app:mill", **environment: str
    ) -> None:
        self.url, self.provider, self.app = url, told, app
        self.environment = environment | {LIMIT: limit, PROVIDER: told.url, URL: url}
        self.processes: list[Python] = []
        self.mill, self.jobs = build(url)
        asyncio.run(self._fill(rows))

    async def _fill(self, rows: int) -> None:
        await self.mill.migrate(tables=True)
        given = [{"id": key} for key in range(1, rows + 1)]
        await self.mill.run(lambda connection: connection.execute(self.jobs.insert(given)).close())

    def start(self, processes: int = 1) -> None:
        quick = {"ROWMILL_POLL_BASE": "0.02", "ROWMILL_POLL_MAX": "0.2", "ROWMILL_HEARTBEAT": "0.3"}
        quick |= {"ROWMILL_RESCUE_EVERY": "0.3"}
        given = {**os.environ, **quick, **self.environment, "PYTHONPATH": str(REPOSITORY)}
        self.processes += [
            Python("-m", "rowmill", "work", self.app, env=given, cwd=REPOSITORY, stdout=DEVNULL, stderr=DEVNULL)
            for _ in range(processes)
        ]

    def called(self, calls: int) -> bool:
        return len(self.provider.arrivals) >= calls

    def kill(self, place: int = 0) -> None:
        process = self.processes.pop(place)
        process.kill()
        process.wait()

    def do(self, work: Callable[[sa.Connection], Any]) -> Any:
        return asyncio.run(self.mill.run(work, write=False))

    def budget(self) -> tuple[int, int]:
        """What is spent and what is reserved, seen in one moment."""
        own = own_tables(self.mill.store.dialect.name).limits
        used = sa.select(sa.func.coalesce(sa.func.sum(own.spending.c.used), 0)).scalar_subquery()
        held = sa.select(sa.func.coalesce(sa.func.sum(own.ticket.c.amount), 0)).scalar_subquery()
        row = self.do(lambda connection: connection.execute(sa.select(used, held)).one())
        return int(row[0]) // MICRO, int(row[1]) // MICRO

    def kept_for(self) -> float:
        """Seconds for which the last of what is reserved would stay so, if every process died now."""
        dialect = self.mill.store.dialect.name
        ticket = own_tables(dialect).limits.ticket.c
        left = sa.select(sa.func.max(ticket.until) - seconds(dialect)).where(ticket.done.is_(sa.false()))
        return float(self.do(lambda connection: connection.scalar(left)) or 0.0)

    def states(self) -> dict[str, int]:
        table = self.jobs.table
        counted = sa.select(table.c.state, sa.func.count()).group_by(table.c.state)
        return dict(self.do(lambda connection: connection.execute(counted).all()))

    def done(self) -> set[str]:
        """What the provider was asked for, of the rows that are done."""
        table = self.jobs.table
        keys = sa.select(table.c.id).where(table.c.state == "done")
        return {f"/{key}" for key in self.do(lambda connection: connection.scalars(keys).all())}

    def failures(self) -> int:
        attempt = own_tables(self.mill.store.dialect.name).attempt
        return int(self.do(lambda connection: connection.scalar(sa.select(sa.func.count()).select_from(attempt))))


@contextmanager
def fleet_on(url: str, limit: str, rows: int, **environment: str) -> Iterator[Fleet]:
    with provider() as told:
        fleet = Fleet(url, limit, rows, told, **environment)
        try:
            yield fleet
        finally:
            for process in fleet.processes:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                process.wait()
