"""NOTIFY is a hint: dear when it is sent for nothing, and of no use when nobody notices that the line is dead."""

import asyncio
from typing import Any

import asyncpg
import pytest
import sqlalchemy as sa

from rowmill import Lease
from rowmill.store.postgres import wakeup
from rowmill.worker import stage
from tests.support.proxy import proxy_to
from tests.work.shop import SECONDS, shop_on, soon, until

LETS_GO = "SELECT " + ", ".join(
    f"(SELECT setting::int FROM pg_settings WHERE name = '{name}')"
    for name in (
        "tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count",
        "idle_in_transaction_session_timeout",
    )
)  # fmt: skip
"""After how many seconds, and milliseconds, the server does."""


async def test_producers_do_not_notify_while_workers_are_busy(pg_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a NOTIFY in every transaction, commits wait for each other, and most so when there is most to do."""
    monkeypatch.setattr(stage, "BUSY", 0.0)
    async with shop_on(pg_url) as shop:
        heard: list[str] = []
        begun, go_on = asyncio.Event(), asyncio.Event()

        @shop.jobs.handler(concurrency=1)
        async def handle(job: Lease[Any]) -> None:
            begun.set()
            await go_on.wait()

        ear = await asyncpg.connect(pg_url)
        await ear.add_listener("rowmill", lambda *message: heard.append(message[-1]))
        async with shop.working(poll_base=600.0, poll_max=600.0) as working:
            store: Any = shop.mill.store
            await until(lambda: store.listener._asleep)
            await shop.put(1)
            await soon(begun)
            await until(lambda: not store.listener._asleep)
            for _ in range(20):
                await shop.put(1)
            await ear.execute("NOTIFY rowmill, 'end'")  # calls arrive in the order of their commits
            await until(lambda: heard[-1:] == ["end"])
            go_on.set()
            await until(lambda: working.worker.report.done == 21)
        await ear.close()
        assert len(heard) == 2, "one for the sleeper, none while it was busy"


async def test_a_listener_that_is_half_open_does_not_stop_the_polling(
    pg_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other side is gone without a word, and what it is asked is never answered. Rows are found all the same, long
    before a statement's own time is over."""
    monkeypatch.setattr(wakeup, "CHECK_SECONDS", -1.0)  # so that each sleep begins with a question
    async with proxy_to(pg_url) as (proxy, url), shop_on(url) as shop:

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> None: ...

        async with shop.working(poll_base=0.05, poll_max=0.2) as working:
            store: Any = shop.mill.store
            await until(lambda: store.listener._asleep)
            proxy.silent.add("rowmill listen")
            for done in (1, 2, 3):
                await shop.put(1)
                await until(lambda done=done: working.worker.report.done == done, SECONDS / 2)  # type: ignore[misc]
            proxy.cut()


async def test_a_server_lets_go_of_a_worker_whose_machine_is_gone(pg_url: str) -> None:
    """Without keep-alives it holds on to the connection for hours, and to the rows that are locked in it."""
    async with shop_on(pg_url) as shop:
        store: Any = shop.mill.store
        for line in (store.claims, store.settles, store.renewals):
            [(idle, interval, count, in_transaction)] = await line.fetch(LETS_GO)
            assert 0 < idle + interval * count <= 120
            assert 0 < in_transaction <= 120_000
        async with store.engine.connect() as connection:
            [idle, interval, count, _] = (await connection.execute(sa.text(LETS_GO))).one()
            assert 0 < idle + interval * count <= 120, "a handler's own transaction"
        with store.sync_engine.connect() as sync:
            [idle, interval, count, _] = sync.execute(sa.text(LETS_GO)).one()
            assert 0 < idle + interval * count <= 120, "one of a handler in a thread"
