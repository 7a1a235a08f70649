"""What a bench says when a test of yours fails."""

import pytest

import rowmill as rm
from rowmill import testing
from tests.conformance.fleet import jobs


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
