"""Rows that are claimed and not settled stay within a budget of bytes, whatever rows turn out to weigh."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from rowmill import Lease, Mill, Order, OrderPerKey
from rowmill.model.judge import Verdict
from rowmill.worker import byte_budget
from rowmill.worker.byte_budget import ByteBudget, RowWeight
from tests.work.shop import TWO_STAGES, WORDS, Shop, job_table, quick, shop_on

KILO, MEGA = 1 << 10, 1 << 20


class Meter:
    """Counts the bytes of titles that the store gave out and that were not settled yet."""

    def __init__(self, mill: Mill) -> None:
        self._claim, self._settle = mill.store.claim, mill.store.settle
        self.held: dict[tuple[str, int], int] = {}
        self.peak = 0
        self.most_rows = 0
        self.with_giant: list[int] = []
        """How many rows were held whenever one of more than a megabyte was."""
        mill.store.claim = self.claim  # type: ignore[method-assign, assignment]
        mill.store.settle = self.settle  # type: ignore[method-assign]

    async def claim(self, *asked: Any) -> list[Lease[Any]]:
        leases = await self._claim(*asked)
        self.held |= {(lease.queue.name, lease.key): len(lease.row.title or "") for lease in leases}
        self.peak = max(self.peak, sum(self.held.values()))
        self.most_rows = max(self.most_rows, len(self.held))
        if any(size > MEGA for size in self.held.values()):
            self.with_giant.append(len(self.held))
        return leases

    async def settle(self, verdicts: Sequence[Verdict], *, skip_locked: bool = False) -> Any:
        settled = await self._settle(verdicts, skip_locked=skip_locked)
        for verdict in verdicts:
            self.held.pop((verdict.lease.queue.name, verdict.lease.key), None)
        return settled


async def put(shop: Shop, *sizes: int, **values: Any) -> None:
    """Jobs with titles of these sizes, with keys from 1."""
    rows = [{"id": key, "title": "x" * size, **values} for key, size in enumerate(sizes, start=1)]
    await shop.run(lambda connection: connection.execute(shop.jobs.insert(rows)).close())


async def nothing(job: Lease[Any]) -> None: ...


async def test_rows_in_hand_stay_within_the_budget(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        shop.jobs.handler(concurrency=20)(nothing)
        meter = Meter(shop.mill)
        await put(shop, *[100 * KILO] * 200)

        report = await shop.drain(claimed_bytes=MEGA)

        assert report.done == 200
        assert 500 * KILO < meter.peak <= MEGA
        assert meter.peak <= report.peak_bytes <= MEGA
        assert report.byte_limited > 0
        [first, *_] = shop.named("memory_limited")
        assert (first["queue"], first["most"]) == ("job", MEGA)
        assert len(shop.named("memory_limited")) == 1, "said once a minute at the most"


async def test_narrow_rows_are_not_limited(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        shop.jobs.handler(concurrency=2)(nothing)
        meter = Meter(shop.mill)
        await put(shop, *[100] * 500)

        report = await shop.drain()

        assert report.done == 500
        assert meter.most_rows > 50
        assert report.byte_limited == 0
        assert not shop.named("memory_limited")


@pytest.mark.parametrize(
    "options",
    [{}, {"order": Order(priority="attempts")}, {"order_per_key": OrderPerKey(per="result")}],
    ids=["plain", "by priority", "in order per key"],
)
async def test_heavy_rows_behind_many_narrow_ones_do_not_break_the_budget(
    database_url: str, options: dict[str, Any]
) -> None:
    """What was learned from a thousand narrow rows is wrong all at once."""
    async with shop_on(database_url, **options) as shop:
        shop.jobs.handler(concurrency=4)(nothing)
        meter = Meter(shop.mill)
        sizes = [10] * 600 + [200 * KILO] * 40
        rows = [{"id": key, "title": "x" * size, "result": str(key)} for key, size in enumerate(sizes, start=1)]
        await shop.run(lambda connection: connection.execute(shop.jobs.insert(rows)).close())

        report = await shop.drain(claimed_bytes=MEGA)

        assert report.done == 640
        assert 400 * KILO <= meter.peak <= MEGA


async def test_a_row_larger_than_the_budget_runs_alone(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        shop.jobs.handler(concurrency=4)(nothing)
        meter = Meter(shop.mill)
        await put(shop, *[100 * KILO] * 10, 3 * MEGA, *[100 * KILO] * 10, 2 * MEGA)

        report = await shop.drain(claimed_bytes=MEGA)

        assert report.done == 22
        assert set(meter.with_giant) == {1}
        assert meter.peak == 3 * MEGA


async def test_a_batch_is_as_large_as_the_budget_allows(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        sizes: list[int] = []

        @shop.jobs.batch_handler(size=50)
        async def handle(batch: list[Lease[Any]]) -> None:
            sizes.append(len(batch))

        meter = Meter(shop.mill)
        await put(shop, *[100 * KILO] * 100)

        report = await shop.drain(claimed_bytes=MEGA)

        assert report.done == 100
        assert meter.peak <= MEGA
        assert 5 <= max(sizes) <= 10


async def test_stages_share_the_budget_and_none_starves(database_url: str) -> None:
    """The rows of the first stage fill the budget by themselves; the others come through beside them."""
    mill = Mill(database_url)
    first = mill.queue(job_table("first"), states=WORDS)
    others = [mill.queue(job_table(name), states=WORDS) for name in ("second", "third")]
    finished: list[str] = []

    async def handle(job: Lease[Any]) -> None:
        await asyncio.sleep(0.002)
        finished.append(job.queue.name)

    for queue in (first, *others):
        queue.handler(concurrency=20)(handle)
    meter = Meter(mill)
    async with mill.opened():
        await mill.migrate(tables=True)
        await first.load({"id": key, "title": "x" * 200 * KILO} for key in range(200))
        for queue in others:
            await queue.load({"id": key, "title": "x" * 400 * KILO} for key in range(20))

        report = await mill.drain(settings=quick(claimed_bytes=MEGA))

    assert report.done == 240
    assert meter.peak <= MEGA
    last = {name: max(place for place, done in enumerate(finished) if done == name) for name in ("second", "third")}
    assert max(last.values()) < 200, "they do not wait until the first one has nothing left"


async def test_two_stages_of_one_queue_share_the_budget(database_url: str) -> None:
    async with shop_on(database_url, TWO_STAGES) as shop:
        for stage in ("first", "second"):
            shop.jobs.handler(stage=stage, concurrency=4)(nothing)
        meter = Meter(shop.mill)
        await put(shop, *[300 * KILO] * 30, state="new")

        report = await shop.drain(claimed_bytes=MEGA)

        assert report.done == 30
        assert meter.peak <= MEGA


async def test_results_that_wait_to_be_written_count(database_url: str) -> None:
    async with shop_on(database_url) as shop:

        @shop.jobs.handler(concurrency=1)
        async def handle(job: Lease[Any]) -> dict[str, str]:
            return {"result": "y" * 500 * KILO}

        await put(shop, 10)
        report = await shop.drain(claimed_bytes=MEGA)

        assert report.peak_bytes > 500 * KILO


async def test_the_budget_is_free_again_when_all_is_settled(database_url: str) -> None:
    async with shop_on(database_url) as shop:

        @shop.jobs.handler(concurrency=4)
        async def handle(job: Lease[Any]) -> dict[str, str]:
            if job.key % 3 == 0:
                raise ValueError("no")
            if job.key % 3 == 1:
                async with job.settling():
                    pass
            return {"result": "y" * 1000}

        await put(shop, *[100 * KILO] * 30)
        async with asyncio.timeout(60), shop.mill.worker(settings=quick(claimed_bytes=MEGA)) as worker:
            await worker.drain()
            assert worker.bytes_in_flight == 0


def test_a_stage_behind_another_waits_for_its_turn_and_not_for_its_claim() -> None:
    budget, woken = ByteBudget(100), list[str]()
    budget.add("jobs", 90)
    heavy = RowWeight()
    heavy.too_heavy_for(10)
    with budget.turn("jobs", lambda: woken.append("heavy")) as first:
        assert first.room(heavy, 1) is None, "it needs more than there is"
        with budget.turn("others", lambda: woken.append("light")) as second:
            assert second.room(RowWeight(), 1) is None, "there is room, but not for those behind"
            budget.remove("jobs", 85)
            assert woken == ["heavy"]
            room = first.room(heavy, 1)
            assert room is not None
            assert (room.most, room.or_one) == (40, False), "twice what it should need"
            assert woken == ["heavy", "light"], "the claim of the first is under way, and holds up nobody"
            room = second.room(RowWeight(), 1)
            assert room is not None
            assert budget.reserved == 40 + room.most
    assert (budget.reserved, budget.held) == (0, 5)


def test_a_row_that_does_not_fit_is_not_waited_for_without_end() -> None:
    """What is held may never go: somebody may have its row locked."""
    now = 0.0
    budget = ByteBudget(100, clock=lambda: now)
    budget.add("jobs", 90)
    giant = RowWeight()
    giant.too_heavy_for(100)
    with budget.turn("jobs", lambda: None) as turn:
        assert turn.room(giant, 1) is None
        now = byte_budget.PATIENCE
        room = turn.room(giant, 1)
        assert room is not None
        assert room.or_one


def test_one_queue_leaves_room_for_the_others() -> None:
    """Its rows may be finished and locked, and never go."""
    budget, woken = ByteBudget(100, queues=2), list[str]()
    budget.add("heavy", 75)
    row = RowWeight()
    row.too_heavy_for(5)
    with (
        budget.turn("heavy", lambda: woken.append("heavy")) as heavy,
        budget.turn("light", lambda: woken.append("light")) as light,
    ):
        assert heavy.room(row, 1) is None
        assert woken == ["light"], "it waits for its own rows, and lets the other go first"
        room = light.room(row, 1)
        assert room is not None
        assert (room.most, room.or_one) == (20, False)


def test_what_rows_weigh_is_learned_at_once_and_forgotten_bit_by_bit() -> None:
    weight = RowWeight()
    weight.claimed(1, 100)
    weight.claimed(1, 1000)
    assert weight.bytes == 1000
    weight.claimed(1, 100)
    assert 900 <= weight.bytes < 1000
