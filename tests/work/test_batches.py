"""A batch handler gets many rows and answers for each; one bad row never costs another its attempt."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from rowmill import Dead, Lease, Retry, RetryLater, TransientError, fixed
from rowmill.errors import ProviderDown
from tests.work.shop import shop_on

LATER = Retry(attempts=3, backoff=fixed(3600.0))
Batch = list[Lease[Any]]


async def test_a_batch_holds_up_to_its_size_and_all_rows_get_there(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        sizes: list[int] = []

        @shop.jobs.batch_handler(size=4)
        async def handle(batch: Batch) -> list[dict[str, str]]:
            sizes.append(len(batch))
            return [{"result": str(job.key)} for job in batch]

        await shop.put(10)
        report = await shop.drain()

        assert report.done == 10
        assert {key: row.result for key, row in (await shop.rows()).items()} == {n: str(n) for n in range(1, 11)}
        assert max(sizes) == 4
        assert sum(sizes) == 10


async def test_a_sync_batch_handler_runs_in_a_thread(database_url: str) -> None:
    async with shop_on(database_url) as shop:

        @shop.jobs.batch_handler(size=5)
        def handle(batch: Batch) -> None:
            with pytest.raises(RuntimeError):
                asyncio.get_running_loop()

        await shop.put(5)
        report = await shop.drain()

        assert report.done == 5


async def test_a_mapping_answers_by_key_and_a_missing_key_is_said(database_url: str) -> None:
    async with shop_on(database_url, retry=LATER) as shop:

        @shop.jobs.batch_handler(size=5)
        async def handle(batch: Batch) -> dict[int, Any]:
            return {1: {"result": "one"}, 2: Dead("no"), 3: RetryLater(), 4: ValueError("four")}

        await shop.put(5)
        await shop.drain()

        rows = await shop.rows()
        states = {key: row.state for key, row in rows.items()}
        assert states == {1: "done", 2: "dead", 3: "waiting", 4: "waiting", 5: "dead"}
        assert rows[1].result == "one"
        assert rows[5].error == "bad_answer: the batch handler gave no answer for this row"


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ([None], "the batch handler gave 1 answers for 3 rows"),
        ([None] * 4, "the batch handler gave 4 answers for 3 rows"),
        (17, "a batch handler returns a list of answers or a mapping by key, not int"),
        ("abc", "a batch handler returns a list of answers or a mapping by key, not str"),
    ],
)
async def test_an_answer_that_fits_no_row_fails_all_for_good_and_says_why(
    sqlite_url: str, answers: Any, said: str
) -> None:
    async with shop_on(sqlite_url, retry=LATER) as shop:

        @shop.jobs.batch_handler(size=3)
        async def handle(batch: Batch) -> Any:
            return answers

        await shop.put(3)
        await shop.drain()

        rows = await shop.rows()
        assert [row.state for row in rows.values()] == ["dead"] * 3
        assert {row.error for row in rows.values()} == {f"bad_answer: {said}"}


@pytest.mark.parametrize("error", [ValueError("bad"), TransientError("bad")])
@pytest.mark.parametrize("threaded", [False, True])
async def test_a_batch_that_fails_is_tried_row_by_row_in_the_same_attempt(
    database_url: str, error: Exception, threaded: bool
) -> None:
    async with shop_on(database_url, retry=LATER) as shop:
        calls: list[list[int]] = []

        def work(batch: Sequence[Lease[Any]]) -> None:
            calls.append([job.key for job in batch])
            assert {job.attempt for job in batch} == {1}
            if any(job.key == 2 for job in batch):
                raise error

        if threaded:
            shop.jobs.batch_handler(size=3)(work)
        else:

            @shop.jobs.batch_handler(size=3)
            async def handle(batch: Batch) -> None:
                work(batch)

        await shop.put(3)
        await shop.drain()

        rows = await shop.rows()
        assert {key: row.state for key, row in rows.items()} == {1: "done", 2: "waiting", 3: "done"}
        assert calls == [[1, 2, 3], [1], [2], [3]]
        assert rows[2].attempts == 1


async def test_a_provider_that_is_down_is_down_for_the_whole_batch(sqlite_url: str) -> None:
    async with shop_on(sqlite_url) as shop:
        calls = []

        @shop.jobs.batch_handler(size=3)
        async def handle(batch: Batch) -> None:
            calls.append(len(batch))
            raise ProviderDown(retry_after=3600.0)

        await shop.put(3)
        await shop.drain()

        assert calls == [3]
        assert {(row.state, row.attempts) for row in (await shop.rows()).values()} == {("waiting", 0)}


async def test_each_row_of_a_batch_has_failures_of_its_own(database_url: str) -> None:
    async with shop_on(database_url, retry=LATER, counts="failures") as shop:

        @shop.jobs.batch_handler(size=5)
        async def handle(batch: Batch) -> dict[int, Any]:
            return {1: None, 2: {"result": "two"}, 3: RetryLater(), 4: Dead("no"), 5: RetryLater(count_attempt=False)}

        await shop.put(5)
        await shop.drain()

        assert {key: row.attempts for key, row in (await shop.rows()).items()} == {1: 0, 2: 0, 3: 1, 4: 1, 5: 0}
