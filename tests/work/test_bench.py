"""`rowmill.testing`: what applications test their handlers with."""

import pytest

import rowmill as rm
from rowmill import testing
from rowmill.testing import Bench
from tests.conformance.fleet import jobs
from tests.work.shop import shop_on


async def test_other_states_than_expected_come_with_what_failed(database_url: str) -> None:
    mill = rm.Mill(database_url)
    queue = mill.queue(jobs())

    @queue.handler()
    async def work(lease: rm.Lease[rm.Record]) -> None:
        raise rm.PermanentError("no such table: note", code="broken")

    async with testing.mill_on(mill, database_url) as bench:
        await bench.insert(queue, {"title": "a"})
        await bench.drain()
        with pytest.raises(AssertionError, match="row 1 failed at attempt 1: broken: no such table: note"):
            await bench.assert_states(queue, done=1)


async def test_the_clock_is_turned_for_rows_that_are_not_finished_alone(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        await shop.put(6)
        at = "timestamptz '2030-01-01 12:00:00+00'" if shop.postgres else "'2030-01-01 12:00:00.000000'"
        states = {1: "ready", 2: "waiting", 3: "running", 4: "done", 5: "dead", 6: "cancelled"}
        for key, state in states.items():
            await shop.sql(
                f"UPDATE job SET state = '{state}', available_at = {at}, leased_until = {at} WHERE id = {key}"
            )
        await Bench(shop.mill).advance(3600)

        hours = {key: (row.available_at.hour, row.leased_until.hour) for key, row in (await shop.rows()).items()}
        assert {key: hours[key] for key in (1, 2, 3)} == dict.fromkeys((1, 2, 3), (11, 11))
        assert {key: hours[key] for key in (4, 5, 6)} == dict.fromkeys((4, 5, 6), (12, 12))
