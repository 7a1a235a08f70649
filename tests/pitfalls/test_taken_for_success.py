"""What could not be seen, or could not be done, is never taken for "nothing there" or for "done"."""

from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from rowmill import Lease, Retry
from rowmill.operator import change
from rowmill.operator.filters import Filter
from rowmill.store.port import Disconnected
from tests.work.shop import shop_on


async def test_a_database_that_does_not_answer_is_not_taken_for_an_empty_queue(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that ends with nothing done, and no error, looks like a good night."""
    async with shop_on(database_url) as shop:
        claim, silent = shop.mill.store.claim, iter(range(3))

        async def unsure(*given: Any) -> Any:
            if next(silent, None) is not None:
                raise Disconnected("gone")
            return await claim(*given)

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> None: ...

        await shop.put(5)
        monkeypatch.setattr(shop.mill.store, "claim", unsure)
        report = await shop.drain()

        assert report.done == 5
        assert len(shop.named("away")) == 1


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_statement_whose_error_is_swallowed_is_not_taken_for_success(database_url: str, kind: str) -> None:
    """PostgreSQL carries out nothing more in such a transaction: the row has to say so, and the next one is fine.
    SQLite undoes the statement alone, and the handler has chosen to go on without it."""
    wrong = sa.text("SELECT * FROM no_such_table")
    async with shop_on(database_url, retry=Retry(attempts=1)) as shop:
        effect = sa.insert(shop.effects)

        if kind == "async":

            @shop.jobs.handler(concurrency=1)
            async def handle(job: Lease[Any]) -> None:
                async with job.settling() as session:
                    await session.execute(effect.values(job=job.key))
                    if job.key == 1:
                        with suppress(sa.exc.DBAPIError):
                            await session.execute(wrong)

        else:

            @shop.jobs.handler(concurrency=1)
            def handle_sync(job: Lease[Any]) -> None:
                with job.settling() as session:
                    session.execute(effect.values(job=job.key))
                    if job.key == 1:
                        with suppress(sa.exc.DBAPIError):
                            session.execute(wrong)

        await shop.put(2)
        await shop.drain()

        first, written = ("dead", [2]) if shop.postgres else ("done", [1, 2])
        assert [(await shop.row(key)).state for key in (1, 2)] == [first, "done"]
        assert await shop.effected() == written


async def test_a_delete_that_the_table_refuses_is_reported_and_not_counted_as_done(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        await shop.sql("CREATE TABLE part (job INTEGER NOT NULL REFERENCES job (id))")
        await shop.put(3, state="done")
        await shop.sql("UPDATE job SET finished_at = '2001-01-01 00:00:00'")
        await shop.sql("INSERT INTO part VALUES (2)")

        pruned = await change.prune(shop.mill.store, shop.jobs, Filter(), timedelta(days=1))

        assert pruned == change.ChangeResult(rows=2, refused=1)
        assert list(await shop.rows()) == [2]
