"""A row that was there when its worker died may have killed it. Its last chance it gets alone, and only that counts."""

import asyncio
import threading
from functools import partial
from typing import Any

import pytest

from rowmill import Lease, Retry, fixed
from rowmill.limits import Rate
from rowmill.store import rescue
from tests.work.shop import SECONDS, Shop, shop_on, soon, until

RETRY = Retry(attempts=3, backoff=fixed(0.0))


async def crash(shop: Shop, *keys: int, attempts: int) -> None:
    """Workers died so often while they held these jobs."""
    past = "now() - interval '1 hour'" if shop.postgres else "strftime('%Y-%m-%d %H:%M:%f000', 'now', '-1 hour')"
    listed = ", ".join(map(str, keys))
    for made in range(1, attempts + 1):
        await shop.sql(
            f"UPDATE job SET state = 'running', attempts = {made}, lease = 5, leased_until = {past}, error = NULL "
            f"WHERE id IN ({listed})"
        )
        await shop.rescue()


async def expire(shop: Shop) -> None:
    past = "now() - interval '1 hour'" if shop.postgres else "strftime('%Y-%m-%d %H:%M:%f000', 'now', '-1 hour')"
    await shop.sql(f"UPDATE job SET leased_until = {past} WHERE state = 'running'")


async def acquit(shop: Shop) -> rescue.Rescued:
    """A sweep as the fleet's own."""
    sql, step = shop.mill.store.sql(shop.jobs), shop.jobs.step()
    sweep = partial(rescue.rescue, sql=sql, step=step, most=100, retry_alone=True)
    found: rescue.Rescued = await shop.run(sweep)
    return found


async def test_suspects_run_alone_one_after_another_and_others_do_not(database_url: str) -> None:
    async with shop_on(database_url, retry=RETRY) as shop:
        inside: set[int] = set()
        beside: dict[int, set[int]] = {}

        @shop.jobs.handler(concurrency=5)
        async def handle(job: Lease[Any]) -> None:
            inside.add(job.key)
            beside.setdefault(job.key, set()).update(inside)
            await asyncio.sleep(0.01)
            for key in inside:
                beside[key].update(inside)
            inside.discard(job.key)

        await shop.put(30)
        await crash(shop, 4, 5, 20, attempts=2)
        report = await shop.drain()

        assert report.done == 30
        assert {key: beside[key] for key in (4, 5, 20)} == {4: {4}, 5: {5}, 20: {20}}
        assert max(len(keys) for keys in beside.values()) > 1, "the others had company"
        assert {row.attempts for key, row in (await shop.rows()).items() if key in (4, 5, 20)} == {3}


async def test_rows_that_crashed_once_are_no_suspects_yet(database_url: str) -> None:
    async with shop_on(database_url, retry=RETRY) as shop:
        met = asyncio.Barrier(3)

        @shop.jobs.handler(concurrency=3)
        async def handle(job: Lease[Any]) -> None:
            await met.wait()

        await shop.put(3)
        await crash(shop, 1, 2, 3, attempts=1)
        report = await shop.drain()

        assert report.done == 3


async def test_nothing_else_begins_before_a_suspect_that_was_found(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It might kill the process, and the suspect would be blamed. What lies ready, and what came with the suspect,
    goes back."""
    async with shop_on(database_url, retry=RETRY) as shop:
        order: list[str] = []
        held: list[int] = []
        crashed = shop.mill.store.crashed

        @shop.jobs.handler(concurrency=2)
        async def handle(job: Lease[Any]) -> None:
            order.append(str(job.key))
            if job.key == 200:
                held.append(working.worker.in_flight)
            await asyncio.sleep(0.001)

        async def noted(*given: Any) -> Any:
            found = await crashed(*given)
            order.extend(["found"] if found else [])
            return found

        await shop.put(400)
        await crash(shop, 200, attempts=2)
        await shop.sql("UPDATE job SET available_at = NULL")
        monkeypatch.setattr(shop.mill.store, "crashed", noted)
        async with shop.working() as working:
            await until(lambda: working.worker.report.done == 400)

        assert max(fields["rows"] for fields in shop.named("claimed")) > 10, "rows lay ready"
        assert order[order.index("found") + 1] == "200"
        assert held == [1]


async def test_a_suspect_is_put_on_trial_before_it_begins(database_url: str) -> None:
    async with shop_on(database_url, retry=RETRY) as shop:
        seen = []

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> None:
            seen.append((await shop.row(job.key)).error)

        await shop.put(2)
        await crash(shop, 1, attempts=2)
        await shop.drain()

        assert sorted(map(str, seen)) == ["None", "lease_expired"]
        assert {row.error for row in (await shop.rows()).values()} == {None}, "nothing of it is left"


async def test_a_suspect_that_waits_for_a_limit_is_not_on_trial(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash meanwhile is not its fault: it has not begun."""
    noted: list[Any] = []
    note = rescue.note_running_alone

    def on_trial(*about: Any, **more: Any) -> bool:
        noted.append(more)
        return note(*about, **more)

    monkeypatch.setattr(rescue, "note_running_alone", on_trial)
    async with shop_on(database_url, retry=RETRY) as shop:
        eqc = shop.mill.limit("eqc", rate=Rate(1, per=1.0))

        @shop.jobs.handler(limits=[eqc.by("title")])
        async def handle(job: Lease[Any]) -> None: ...

        await eqc.off()
        await shop.put(1, title="a")
        await crash(shop, 1, attempts=2)
        await shop.drain()

        assert (await shop.row(1)).error == "limit_off: eqc a"
        assert not noted


async def test_only_a_row_on_trial_is_buried_by_the_fleet(database_url: str) -> None:
    async with shop_on(database_url, retry=RETRY) as shop:
        await shop.put(2)
        await shop.sql("UPDATE job SET state = 'running', attempts = 3, lease = 5")
        await shop.sql("UPDATE job SET error = 'lease_expired' WHERE id = 2")
        await expire(shop)

        assert await acquit(shop) == rescue.Rescued(returned=1, buried=1)
        rows = await shop.rows()
        assert (rows[1].state, rows[1].attempts, rows[1].lease) == ("waiting", 2, None)
        assert (rows[2].state, rows[2].attempts, rows[2].error) == ("dead", 3, "lease_expired_max_attempts")
        assert await shop.failures(1) == [(3, "lease_expired")], "the next time, it is a suspect"


async def test_a_row_with_a_single_attempt_is_never_tried_again(database_url: str) -> None:
    async with shop_on(database_url, retry=Retry(attempts=1)) as shop:
        await shop.put(1)
        await shop.sql("UPDATE job SET state = 'running', attempts = 1, lease = 5")
        await expire(shop)

        assert await acquit(shop) == rescue.Rescued(buried=1)


async def test_a_suspect_whose_lease_is_gone_does_not_begin(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with shop_on(database_url, retry=RETRY) as shop:
        begun = []

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> None:
            begun.append(job.key)

        await shop.put(1)
        await crash(shop, 1, attempts=2)
        crashed = shop.mill.store.crashed

        async def rob_meanwhile(*given: Any) -> Any:
            await shop.rob()
            return await crashed(*given)

        monkeypatch.setattr(shop.mill.store, "crashed", rob_meanwhile)
        report = await shop.drain()

        assert begun == []
        assert report.lost == 1
        assert (await shop.row()).lease == 77


async def test_a_suspect_that_waits_for_long_handlers_runs_beside_them_in_the_end(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowmill.worker.in_flight.PATIENCE", 0.2)
    async with shop_on(sqlite_url, retry=RETRY) as shop:
        begun, tried = asyncio.Event(), asyncio.Event()

        @shop.jobs.handler(concurrency=2)
        async def handle(job: Lease[Any]) -> None:
            if job.key == 1:
                begun.set()
                await soon(tried)
            else:
                tried.set()

        await shop.put(1)
        async with shop.working() as working:
            await soon(begun)
            await shop.put(1)
            await crash(shop, 2, attempts=2)
            await until(lambda: working.worker.report.done == 2)


async def test_a_suspect_at_work_is_released_by_a_stop(database_url: str) -> None:
    async with shop_on(database_url, retry=RETRY) as shop:
        begun = asyncio.Event()

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> None:
            begun.set()
            await asyncio.sleep(3600)

        await shop.put(1)
        await crash(shop, 1, attempts=2)
        async with shop.working(grace=0.1) as working:
            await soon(begun)
            await working.stop()

        row = await shop.row()
        assert (row.state, row.attempts, row.lease) == ("ready", 2, None)


async def test_a_drain_does_not_leave_suspects_for_the_next_one(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowmill.worker.suspects.SPREAD", 0.3)
    async with shop_on(database_url, retry=RETRY) as shop:

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> None: ...

        await shop.put(6)
        await crash(shop, 1, 2, 3, 4, 5, 6, attempts=2)
        report = await shop.drain()

        assert report.done == 6
        assert await shop.states() == {"done": 6}


async def test_a_suspect_that_waits_for_its_turn_is_released_by_a_stop(database_url: str) -> None:
    async with shop_on(database_url, retry=RETRY) as shop:
        begun = asyncio.Event()

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> None:
            begun.set()
            await asyncio.sleep(3600)

        await shop.put(1)
        async with shop.working(grace=0.1) as working:
            await soon(begun)
            await shop.put(1)
            await crash(shop, 2, attempts=2)
            await until(lambda: working.worker.stages[0].alone)
            await working.stop()

        row = await shop.row(2)
        assert (row.state, row.attempts, row.lease) == ("ready", 2, None)


async def test_a_suspect_that_the_table_does_not_let_be_noted_is_dead_and_holds_up_nothing(sqlite_url: str) -> None:
    async with shop_on(sqlite_url, retry=RETRY) as shop:

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> None: ...

        await shop.put(2)
        await crash(shop, 1, attempts=2)
        await shop.sql(
            "CREATE TRIGGER no_errors BEFORE UPDATE ON job WHEN NEW.state = 'running' AND NEW.error IS NOT NULL "
            "BEGIN SELECT RAISE(ABORT, 'no'); END"
        )
        await shop.drain()

        rows = await shop.rows()
        assert (rows[1].state, rows[2].state) == ("dead", "done")
        assert rows[1].error == "move_refused: the table does not let its last attempt be noted: IntegrityError"


async def test_an_error_around_a_suspect_ends_the_worker(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its task is not one of those that run all the time: unwatched, it would die with the row in hand, for ever."""
    async with shop_on(database_url, retry=RETRY) as shop:

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> None: ...

        def broken(*_: Any, **__: Any) -> Any:
            raise ZeroDivisionError

        await shop.put(1)
        await crash(shop, 1, attempts=2)
        monkeypatch.setattr(rescue, "note_running_alone", broken)
        with pytest.raises(ZeroDivisionError):
            await shop.drain()

        row = await shop.row()
        assert (row.state, row.attempts, row.lease) == ("ready", 2, None)


async def test_a_suspect_finds_a_thread_while_another_does_not_end(sqlite_url: str) -> None:
    """Otherwise it would be dead of its time-out, and begin after that."""
    async with shop_on(sqlite_url, retry=Retry(attempts=3, backoff=fixed(3600.0))) as shop:
        release, begun = threading.Event(), []

        @shop.jobs.handler(concurrency=1, timeout=0.3)
        def handle(job: Lease[Any]) -> None:
            begun.append(job.key)
            if job.key == 30:
                release.wait(SECONDS)

        await shop.put(30)
        async with shop.working():
            await until(lambda: len(shop.named("settled")) == 30)
            await shop.put(1)
            await crash(shop, 31, attempts=2)
            await until(lambda: len(shop.named("settled")) == 31)
            release.set()

        assert begun[-1] == 31
        assert (await shop.row(31)).state == "done"


async def test_suspects_do_not_wait_in_line_behind_one_that_does_not_end(sqlite_url: str) -> None:
    async with shop_on(sqlite_url, retry=Retry(attempts=3, backoff=fixed(3600.0))) as shop:
        release = threading.Event()

        @shop.jobs.handler(concurrency=1, timeout=0.3)
        def handle(job: Lease[Any]) -> None:
            if job.key == 1:
                release.wait(SECONDS)

        await shop.put(2)
        await crash(shop, 1, attempts=2)
        async with shop.working():
            await until(lambda: [fields for fields in shop.named("settled") if fields["key"] == "1"])
            await crash(shop, 2, attempts=2)
            await until(lambda: len([f for f in shop.named("settled") if f["key"] == "2"]) > 3)
            assert (await shop.row(2)).attempts <= 3
            release.set()
            await until(lambda: shop.named("settled")[-1]["move"] == "done")

        assert {key: row.state for key, row in (await shop.rows()).items()} == {1: "dead", 2: "done"}
