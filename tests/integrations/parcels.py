"""An application whose queues Dagster and Celery drain. The database is that of DATABASE_URL.

A title says what the handler does: `fail`, `hold` until the file of HOLD_FILE exists, or anything else: done.
"""

import asyncio
import os
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

import rowmill as rm

HOLD_FILE = "PARCELS_HOLD_FILE"
BEGUN_FILE = "PARCELS_BEGUN_FILE"


class Base(DeclarativeBase):
    pass


class Parcel(Base, rm.QueueMixin):
    __tablename__ = "parcel"

    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str]


class Label(Base, rm.QueueMixin):
    __tablename__ = "label"

    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str]


def say_begun() -> None:
    Path(os.environ[BEGUN_FILE]).touch()


def may_go() -> bool:
    return Path(os.environ[HOLD_FILE]).exists()


def make_mill(url: str | None = None) -> rm.Mill:
    """Return a mill with the queues `parcel`, by rows, and `label`, by batches."""
    mill = rm.Mill(url or "sqlite:///nowhere/at/all.db", settings=rm.worker.WorkerSettings(grace=0.2))
    parcels = mill.queue(Parcel, lease=2.0, retry=rm.Retry(attempts=2, backoff=rm.fixed(3600)))
    labels = mill.queue(Label)

    @parcels.handler(concurrency=4)
    async def send(parcel: rm.Lease[Parcel]) -> None:
        if parcel.row.title == "fail":
            raise rm.PermanentError("no such address", code="address")
        if parcel.row.title == "hold":
            say_begun()
            while not may_go():
                await asyncio.sleep(0.02)

    @labels.batch_handler(size=50)
    async def print_labels(labels: list[rm.Lease[Label]]) -> None:
        SIZES.append(len(labels))

    return mill


SIZES: list[int] = []
"""How many labels each call got."""


def mill_of_environment() -> rm.Mill:
    return make_mill(os.environ["DATABASE_URL"])


def put(mill: rm.Mill, *titles: str, queue: str = "parcel") -> None:
    """Insert rows with these titles."""
    rows = [{"title": title} for title in titles]
    asyncio.run(mill.run(lambda c: c.execute(mill[queue].insert(rows)).close()))


def states(mill: rm.Mill, queue: str = "parcel") -> dict[str, int]:
    """Return how many rows are in which state."""
    table = mill[queue].table
    found = sa.select(table.c.state, sa.func.count()).group_by(table.c.state)
    return asyncio.run(mill.run(lambda c: {row[0]: row[1] for row in c.execute(found)}, write=False))
