"""A database that was set back: by a standby that took over and was behind, or from a backup."""

from typing import Any

import sqlalchemy as sa

from rowmill import Mill, Queue
from rowmill.maintenance.upkeep import Upkeep
from rowmill.observe.events import Events
from rowmill.store.own.schema import own_tables
from rowmill.worker.settings import WorkerSettings
from tests.conformance.fleet import fleet, jobs, worker


def plain(mill: Mill) -> Queue[Any]:
    return mill.queue(jobs())


async def test_a_worker_whom_the_database_forgot_signs_up_again(database_url: str) -> None:
    heard: list[tuple[str, Any]] = []
    async with worker(database_url, plain) as member:
        before = member.store.worker
        await member.put({}, {})
        [held] = await member.claim()
        keeper = Upkeep(
            member.store, before, [member.queue], Events([lambda event, fields: heard.append((event, fields))]),
            WorkerSettings(heartbeat=1.0, rescue_every=10.0, rescue_most=10, keep_history=1e6),
        )  # fmt: skip
        own = own_tables(member.store.dialect.name).worker
        await member.mill.run(lambda connection: connection.execute(sa.delete(own)).close())
        await keeper.tick(1000.0)

        [known] = await member.own("worker")
        assert (known.id, known.queues, known.stopped_at) == (keeper.worker, "jobs", None)
        assert heard == [("forgotten", {"worker": before, "now": known.id})]
        assert member.store.worker == known.id != before
        await keeper.tick(1001.0)
        assert len(heard) == len(await member.own("worker")) == 1

        # What it holds, it holds; what it claims from now on bears its new number.
        [other] = await member.claim()
        settled = await member.settle((held, None), (other, None))
        assert (settled.kept, settled.lost) == (2, [])


async def test_two_workers_with_one_number_do_each_other_no_harm(database_url: str) -> None:
    """A number that was given out and forgotten is given out again, while its first owner lives."""
    async with fleet(database_url, plain, size=2) as [first, second]:
        second.store.worker = first.store.worker
        await first.put({}, {})
        [one] = await first.claim()
        [other] = await second.claim()
        assert one.token != other.token
        assert (await first.settle((one, None))).kept == 1
        assert (await second.settle((other, None))).kept == 1
        assert [row.state for row in await first.rows()] == ["done", "done"]
