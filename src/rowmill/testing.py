"""Tools for tests of applications that use Rowmill: a mill on a temporary file, time that can be advanced, assertions
on states.

async def test_articles(tmp_path):
    async with rowmill.testing.mill_on(app.mill, tmp_path) as bench:
        await bench.insert(articles, {"title": "a"})
        await bench.drain()
        await bench.assert_states(articles, done=1)
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from rowmill.mill import Mill, Queue
from rowmill.model.duration import Duration, in_seconds
from rowmill.model.lifecycle import UNFINISHED
from rowmill.schedules import admin
from rowmill.store.expressions import in_words
from rowmill.store.own.schema import own_tables
from rowmill.worker.report import Report
from rowmill.worker.settings import WorkerSettings

QUICK = WorkerSettings(poll_base=0.01, poll_max=0.05, grace=5.0, heartbeat=0.5, rescue_every=0.2)
"""Settings for tests: everything soon."""


class Bench:
    """A mill under test."""

    def __init__(self, mill: Mill) -> None:
        self.mill = mill

    async def insert(self, queue: Queue[Any], *rows: Mapping[str, Any]) -> None:
        """Insert rows, as an application would."""
        await self.mill.run(lambda connection: connection.execute(queue.insert(list(rows))).close())

    async def drain(self) -> Report:
        """Work until nothing is ready."""
        return await self.mill.drain(settings=QUICK)

    async def tick(self, schedule: str) -> Report:
        """Run a schedule now, whatever the time is, and everything that is ready."""
        wanted = self.mill.find_schedule(schedule)
        await self.mill.run(lambda connection: admin.run_now(connection, wanted))
        return await self.drain()

    async def advance(self, by: Duration) -> None:
        """Let time pass for every unfinished row: waits end, leases expire.

        The database's clock decides, and can't be turned; so the rows' times are moved back instead.
        """

        def work(connection: Connection) -> None:
            for queue in self.mill.queues.values():
                sql = self.mill.store.sql(queue)
                unfinished = in_words(sql, queue.vocabulary.all_of(UNFINISHED))
                for role in ("available_at", "leased_until"):
                    column = queue.columns[role]
                    back = sql.shifted(column, -in_seconds(by))
                    connection.execute(
                        sa.update(queue.table)
                        .where(unfinished, column.is_not(None))
                        .values({column: sa.literal_column(back)})
                    )

        await self.mill.run(work)
        for queue in self.mill.queues.values():
            self.mill.store.drop_watermarks(queue)

    async def states(self, queue: Queue[Any]) -> dict[str, int]:
        """Return how many rows are in each state, by the table's own words."""
        column = queue.columns["state"]
        rows = await self.mill.run(
            lambda connection: connection.execute(sa.select(column, sa.func.count()).group_by(column)).all(),
            write=False,
        )
        return {str(getattr(word, "value", word)): number for word, number in rows}

    async def assert_states(self, queue: Queue[Any], **expected: int) -> None:
        """Assert that the table holds exactly these rows, by state word."""
        found = await self.states(queue)
        if found != {word: number for word, number in expected.items() if number}:
            lines = [f"rows of {queue.name} are {found}, expected {expected}"]
            lines += [f"row {row.key} failed at attempt {row.attempt}: {row.code}: {row.message}"
                      for row in await self._attempts(queue)]  # fmt: skip
            raise AssertionError("\n".join(lines))

    async def failures(self, queue: Queue[Any]) -> list[tuple[str, int, str]]:
        """Return (key, attempt, code) of every failed attempt, oldest first."""
        return [(row.key, row.attempt, row.code) for row in await self._attempts(queue)]

    async def _attempts(self, queue: Queue[Any]) -> Sequence[Any]:
        own = own_tables(self.mill.store.dialect.name).attempt
        wanted = sa.select(own).where(own.c.queue == queue.name).order_by(own.c.id)
        return await self.mill.run(lambda connection: connection.execute(wanted).all(), write=False)


@asynccontextmanager
async def mill_on(mill: Mill, database: Path | str) -> AsyncIterator[Bench]:
    """Use a mill on a fresh database for the time of the block, with its tables created. `database` is a folder, for a
    SQLite file in it, or a URL."""
    before = mill.url.render_as_string(hide_password=False)
    pooled = mill.pooled_url.render_as_string(hide_password=False) if mill.pooled_url else None
    mill.move_to(f"sqlite:///{database / 'rowmill.db'}" if isinstance(database, Path) else database)
    try:
        async with mill.opened():
            await mill.migrate(tables=True)
            yield Bench(mill)
    finally:
        mill.move_to(before, pooled)
