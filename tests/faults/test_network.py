"""Between a worker and PostgreSQL: answers that are lost, connections that are cut, connections that are half-open."""

import asyncio
from typing import Any

import pytest

from rowmill import Lease
from rowmill.model.judge import judge
from rowmill.store.postgres import connection, wakeup
from rowmill.worker import worker as worker_module
from tests.support.proxy import proxy_to
from tests.work.shop import quick, shop_on, until


async def test_a_settle_whose_answer_was_lost_counts_as_settled_and_not_as_lost(pg_url: str) -> None:
    async with proxy_to(pg_url) as (proxy, url), shop_on(url) as shop:

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> dict[str, str]:
            return {"result": "written"}

        await shop.put(20)
        proxy.lose_answer("rowmill settle", b"INSERT INTO rowmill.receipt")
        report = await shop.drain()

        assert proxy.lost == ["rowmill settle"], "the server had committed"
        assert (report.done, report.lost) == (20, 0)
        assert len(shop.named("settled")) == 20
        assert await shop.states() == {"done": 20}
        assert {row.attempts for row in (await shop.rows()).values()} == {1}


async def test_a_lost_lease_is_still_lost_when_the_first_try_did_not_arrive(pg_url: str) -> None:
    async with proxy_to(pg_url) as (proxy, url), shop_on(url) as shop:
        robbed = asyncio.Event()

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> None:
            await shop.rob()
            proxy.cut()
            robbed.set()

        await shop.put(1)
        async with shop.working() as working:
            await until(lambda: working.worker.report.lost == 1)

        assert robbed.is_set()
        assert (await shop.row()).lease == 77


async def test_a_lease_that_was_lost_is_told_even_when_the_answer_to_its_settle_was_lost_too(pg_url: str) -> None:
    async with proxy_to(pg_url) as (proxy, url), shop_on(url) as shop:
        await shop.put(3)
        store = shop.mill.store
        store.worker = 1
        leases = await store.claim(shop.jobs, shop.jobs.step(), 3)
        await shop.rob(leases[1].key)
        proxy.lose_answer("rowmill settle", b"INSERT INTO rowmill.receipt")
        settled = await store.settle([judge(lease, {"result": "written"}, 0.0) for lease in leases])

        assert proxy.lost == ["rowmill settle"], "the server had committed"
        assert settled.kept == 2
        assert [verdict.lease for verdict in settled.lost] == [leases[1]]
        assert settled.refused == []


async def test_rows_of_a_claim_whose_answer_was_lost_are_given_back_at_once_with_their_attempt(pg_url: str) -> None:
    """Otherwise they would lie there until their leases end, and be taken for crashed."""
    async with proxy_to(pg_url) as (proxy, url), shop_on(url, lease=3600.0) as shop:
        attempts = []

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> None:
            attempts.append(job.attempt)

        await shop.put(5)
        proxy.lose_answer("rowmill claim", b"UPDATE job")
        report = await shop.drain()

        assert proxy.lost == ["rowmill claim"], "the server had committed"
        assert report.done == 5
        assert attempts == [1] * 5
        assert await shop.failures() == []


async def test_a_claim_that_is_lost_at_the_very_end_is_given_back_too(pg_url: str) -> None:
    async with proxy_to(pg_url) as (proxy, url), shop_on(url, lease=3600.0) as shop:

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> None: ...

        await shop.put(5)
        store = shop.mill.store
        store.worker = 1
        proxy.lose_answer("rowmill claim", b"UPDATE job")
        with pytest.raises(Exception, match="connection"):
            await store.claim(shop.jobs, shop.jobs.step(), 5)
        assert await shop.states() == {"running": 5}
        await store.close()
        await store.open()

        assert await shop.states() == {"ready": 5}
        assert {row.attempts for row in (await shop.rows()).values()} == {0}


async def test_connections_that_are_cut_again_and_again_lose_nothing(pg_url: str) -> None:
    async with proxy_to(pg_url) as (proxy, url), shop_on(url, lease=30.0) as shop:
        calls: list[int] = []

        @shop.jobs.handler(concurrency=20)
        async def handle(job: Lease[Any]) -> dict[str, str]:
            calls.append(job.key)
            await asyncio.sleep(0.02)
            return {"result": str(job.attempt)}

        await shop.put(1500)
        async with shop.mill.worker(settings=quick()) as worker:
            proxy.made.clear()
            proxy.cut_every = 25
            async with asyncio.timeout(60):
                report = await worker.drain()
            proxy.cut_every = None

        assert proxy.made.count("rowmill claim") > 5, "cut again and again"

        assert await shop.states() == {"done": 1500}
        assert sorted(calls) == list(range(1, 1501)), "every handler ran once"
        assert (report.done, report.lost) == (1500, 0)
        assert {row.result for row in (await shop.rows()).values()} == {"1"}


async def test_half_open_connections_are_noticed_and_left(pg_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "STATEMENT_SECONDS", 0.5)
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 0.5)
    monkeypatch.setattr(wakeup, "CHECK_SECONDS", 0.1)
    async with proxy_to(pg_url) as (proxy, url), shop_on(url, lease=30.0) as shop:
        first, release = asyncio.Event(), asyncio.Event()

        @shop.jobs.handler(concurrency=1)
        async def handle(job: Lease[Any]) -> None:
            first.set()
            if job.key == 1:
                await release.wait()

        await shop.put(1)
        async with shop.working() as working:
            await first.wait()
            proxy.stall()
            release.set()
            await until(lambda: shop.named("away"))
            proxy.flow()
            await until(lambda: shop.named("back"))
            await shop.put(3)
            await until(lambda: working.worker.report.done == 4)
            report = await working.stop()

        assert report.lost == 0
        assert await shop.states() == {"done": 4}


async def test_a_worker_leaves_while_its_connections_are_half_open(
    pg_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "FLUSH_SECONDS", 0.5)
    monkeypatch.setattr(worker_module, "CANCEL_SECONDS", 0.5)
    async with proxy_to(pg_url) as (proxy, url), shop_on(url) as shop:
        begun = asyncio.Event()

        @shop.jobs.handler(concurrency=1)
        async def handle(job: Lease[Any]) -> None:
            begun.set()
            await asyncio.sleep(3600)

        await shop.put(1)
        async with shop.working(grace=0.0) as working:
            await begun.wait()
            proxy.stall()
            await working.stop()
            proxy.flow()

        assert [fields["rows"] for fields in shop.named("unwritten")] == [1]


async def test_an_idle_worker_keeps_its_connections(pg_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sleeping, being called and waking up must not cost a connection each time."""
    monkeypatch.setattr(wakeup, "CHECK_SECONDS", -1.0)  # so that each sleep begins with a statement
    async with proxy_to(pg_url) as (proxy, url), shop_on(url) as shop:
        done = 0

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> None:
            nonlocal done
            done += 1

        async with shop.working(poll_base=0.01, poll_max=0.02) as working:
            for turn in range(1, 31):
                await shop.put(1)
                await until(lambda turn=turn: done == turn)  # type: ignore[misc]
                for _ in range(10):
                    working.worker.stages[0].wake()
                    await asyncio.sleep(0.001)
            await working.stop()

        ours = [name for name in proxy.made if name.startswith("rowmill ")]
        assert sorted(ours) == ["rowmill claim", "rowmill listen", "rowmill settle"]
