"""Two applications with queues of their own on one database."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

import rowmill as rm

QUICK = rm.worker.WorkerSettings(poll_base=0.02, poll_max=0.1, heartbeat=0.1, rescue_every=0.1)


class Base(DeclarativeBase):
    pass


class Order(rm.QueueMixin, Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)


class Letter(rm.QueueMixin, Base):
    __tablename__ = "letters"
    id: Mapped[int] = mapped_column(primary_key=True)


def application(url: str, source: type[Base]) -> rm.Mill:
    mill = rm.Mill(url, settings=QUICK)
    queue = mill.queue(source, lease=1.0)
    queue.handler()(lambda lease: None)
    return mill


async def leave_behind(mill: rm.Mill, source: type[Base]) -> asyncio.Event:
    """A row as a dead worker leaves it. The event is set when this application rescues it."""
    rescued = asyncio.Event()

    def observe(event: str, fields: Mapping[str, Any]) -> None:
        if event == "rescued":
            rescued.set()

    mill.observe(observe)
    past = datetime.now(UTC) - timedelta(minutes=1)
    left = {"id": 1, "state": "running", "attempts": 1, "lease": 99 << 36 | 1, "leased_until": past}
    await mill.run(lambda connection: connection.execute(sa.insert(source).values(left)).close())
    return rescued


async def test_rows_are_rescued_by_their_own_application_while_another_one_leads(database_url: str) -> None:
    """A leader knows its own queues only: it must not keep others from the upkeep of theirs."""
    shop, post = application(database_url, Order), application(database_url, Letter)
    await shop.migrate(tables=True)
    await post.migrate(tables=True)
    async with shop.worker() as seller:
        leads = await leave_behind(shop, Order)
        selling = asyncio.create_task(seller.run())
        await asyncio.wait_for(leads.wait(), 30)
        async with post.worker() as postman:
            rescued = await leave_behind(post, Letter)
            carrying = asyncio.create_task(postman.run())

            await asyncio.wait_for(rescued.wait(), 30)

            postman.stop()
            await carrying
        seller.stop()
        await selling
