"""A part of the worker that breaks ends the worker, with its error: it never idles for days."""

import asyncio
import os
from typing import Any

import pytest
import sqlalchemy as sa

from rowmill import Lease
from rowmill.errors import DatabaseUnreachable
from tests.work.shop import QUICK, SECONDS, Shop, shop_on, soon


class Broken(Exception):
    """A bug of ours."""


async def broken(*_: Any, **__: Any) -> Any:
    raise Broken


def with_handler(shop: Shop) -> asyncio.Event:
    begun = asyncio.Event()

    @shop.jobs.handler(concurrency=2)
    async def handle(job: Lease[Any]) -> None:
        begun.set()
        if job.key != 1:
            await asyncio.sleep(3600)

    return begun


@pytest.mark.parametrize("part", ["claim", "settle", "renew"])
async def test_a_part_that_breaks_ends_the_worker_with_its_error(
    database_url: str, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shop_on(database_url, lease=1.0) as shop:
        with_handler(shop)
        await shop.put(2)
        with monkeypatch.context() as patch:
            patch.setattr(shop.mill.store, part, broken)
            async with shop.mill.worker() as worker:
                with pytest.raises(Broken):
                    async with asyncio.timeout(SECONDS):
                        await worker.run()


async def test_what_it_held_is_given_back(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with shop_on(database_url, lease=1.0) as shop:
        begun = with_handler(shop)
        await shop.put(4)
        async with shop.mill.worker() as worker:
            task = asyncio.create_task(worker.run())
            await soon(begun)
            monkeypatch.setattr(shop.mill.store, "renew", broken)
            with pytest.raises(Broken):
                async with asyncio.timeout(SECONDS):
                    await task

        assert await shop.states() == {"done": 1, "ready": 3}
        assert {row.attempts for row in (await shop.rows()).values() if row.state == "ready"} == {0}


async def test_a_service_that_ends_by_itself_ends_the_worker(sqlite_url: str) -> None:
    async with shop_on(sqlite_url) as shop:
        with_handler(shop)
        async with shop.mill.worker() as worker:

            class Nap:
                async def run(self) -> None: ...

            worker._services = [Nap()]
            with pytest.raises(RuntimeError, match="Nap ended by itself"):
                async with asyncio.timeout(SECONDS):
                    await worker.run()


async def test_an_observer_that_fails_is_only_logged(database_url: str, caplog: pytest.LogCaptureFixture) -> None:
    async with shop_on(database_url) as shop:

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> None: ...

        def observe(event: str, fields: Any) -> None:
            raise Broken

        shop.mill.observe(observe)
        await shop.put(3)
        report = await shop.drain()

        assert report.done == 3
        assert "an observer failed on settled" in caplog.text


async def test_a_wake_up_that_breaks_leaves_polling_and_is_said_once(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shop_on(database_url) as shop:
        done = asyncio.Event()
        claims = 0
        claim = shop.mill.store.claim

        async def counted(*given: Any) -> Any:
            nonlocal claims
            claims += 1
            return await claim(*given)

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> None:
            done.set()

        monkeypatch.setattr(shop.mill.store, "wait", broken)
        monkeypatch.setattr(shop.mill.store, "claim", counted)
        async with shop.working(poll_base=0.05, poll_max=0.05):
            await asyncio.sleep(0.5)
            idle = claims
            await shop.put(1)
            await soon(done)

        assert 1 < idle < 30, "no faster than it would poll"
        assert [fields["reason"] for fields in shop.named("wakeup_unavailable")] == ["Broken"]


@pytest.mark.parametrize("fate", ["deleted", "replaced"])
async def test_a_sqlite_file_that_is_not_ours_any_more_ends_the_worker(sqlite_url: str, fate: str) -> None:
    """What a process writes to a file that was deleted, nobody ever sees: it would work for days, for nothing."""
    async with shop_on(sqlite_url) as shop:
        begun = with_handler(shop)
        await shop.put(2)
        path = str(sa.make_url(sqlite_url).database)

        async def work_until_it_is_gone() -> None:
            async with asyncio.timeout(SECONDS), shop.mill.worker(settings=QUICK) as worker:
                task = asyncio.create_task(worker.run())
                await soon(begun)
                for name in (path, f"{path}-wal", f"{path}-shm"):
                    os.unlink(name)
                if fate == "replaced":
                    os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
                await task

        with pytest.raises(DatabaseUnreachable, match=f"rowmill.db was {fate} .* Start this process again"):
            await work_until_it_is_gone()


async def test_a_sqlite_file_by_another_name_is_still_ours(sqlite_url: str) -> None:
    """A file that is written to, or named by a URI, is the same file."""
    path = sa.make_url(sqlite_url).database
    async with shop_on(f"sqlite:///file:{path}?uri=true") as shop:
        with_handler(shop)
        await shop.put(1)
        assert (await shop.drain()).done == 1
