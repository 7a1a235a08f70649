"""The upkeep of the fleet waits for those who were cut off."""

import asyncio
from typing import Any

import pytest

from rowmill import Lease
from rowmill.maintenance.upkeep import Upkeep
from rowmill.observe.events import Events
from rowmill.store import rescue as rescuing
from rowmill.store.port import Disconnected, Heartbeat
from rowmill.worker.settings import WorkerSettings
from tests.work.shop import WORDS, job_table, shop_on, soon, until


class Flaky:
    """A store that is away for the first few heartbeats; then its worker is the leader."""

    def __init__(self, outage: int) -> None:
        self.left = outage
        self.calls = 0
        self.steady = asyncio.Event()

    async def heartbeat(self, worker: int, leadership: str, seconds: float, settle_lag: str | None) -> Heartbeat:
        if self.left:
            self.left -= 1
            raise Disconnected("gone")
        self.calls += 1
        if self.calls > 20:
            self.steady.set()
        return Heartbeat({("paused", "queue")}, leading=True)


class Sweeps(Upkeep):
    """Counts its sweeps."""

    swept = 0

    async def rescue(self) -> rescuing.Rescued:
        self.swept += 1
        return rescuing.Rescued()


@pytest.mark.parametrize(("outage", "sweeps"), [(0, 1), (3, 0)])
async def test_after_an_outage_those_who_live_get_the_time_to_renew_before_anyone_sweeps(
    outage: int, sweeps: int
) -> None:
    store: Any = Flaky(outage)
    keeper = Sweeps(store, 1, [], Events(), WorkerSettings(heartbeat=0.001, rescue_every=3600.0))
    keeper._tidy_at = float("inf")
    task = asyncio.create_task(keeper.run())
    await soon(store.steady)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert keeper.swept == sweeps


async def test_a_queue_that_can_not_be_swept_keeps_no_other_waiting_and_is_said_once(pg_url: str) -> None:
    async with shop_on(pg_url) as shop:
        second = shop.mill.queue(job_table("second"), states=WORDS)
        for queue in (shop.jobs, second):

            @queue.handler()
            async def handle(job: Lease[Any]) -> None: ...

        await shop.mill.migrate(tables=True)
        await shop.put(1)
        await shop.run(lambda connection: connection.execute(second.insert({"id": 1})).close())
        for table in ("job", "second"):
            await shop.sql(
                f"UPDATE {table} SET state = 'running', attempts = 1, lease = 5, leased_until = now() - interval '1 h'"
            )
        await shop.sql(
            "CREATE FUNCTION busy() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'not now' USING ERRCODE = 'lock_not_available'; END $$"
        )
        await shop.sql("CREATE TRIGGER busy BEFORE UPDATE ON job FOR EACH ROW EXECUTE FUNCTION busy()")
        async with shop.working(heartbeat=0.01, rescue_every=0.01):
            await until(lambda: shop.named("settled"))
            await asyncio.sleep(0.3)
            assert [fields["queue"] for fields in shop.named("maintenance_failed")] == ["job"]
            await shop.sql("DROP TRIGGER busy ON job")
            await until(lambda: len(shop.named("settled")) == 2)

        assert not shop.named("away")


def test_a_part_of_the_worker_that_is_back_does_not_speak_for_the_other() -> None:
    """Claims may go well while upkeep gets no connection: said over and over, it would fill the log."""
    heard: list[str] = []
    events = Events([lambda event, fields: heard.append(event)])
    for _ in range(3):
        events.away("too many connections", who="upkeep")
        events.back(who="claim")
    assert heard == ["away"]
    events.away("too many connections", who="claim")
    events.back(who="upkeep")
    assert heard == ["away"]
    events.back(who="claim")
    assert heard == ["away", "back"]
