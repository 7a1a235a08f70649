"""The same queue as in `bench.worker_app`, on an ORM class."""

from sqlalchemy.orm import DeclarativeBase

import rowmill as rm
from bench.peers.kit import Ticks
from bench.tables import STATES, narrow


class WorkerBase(DeclarativeBase):
    pass


class NarrowJob(WorkerBase):
    __table__ = narrow(WorkerBase.metadata)


mill = rm.Mill()
jobs = mill.queue(NarrowJob, states=STATES)
ticks = Ticks()


@jobs.handler(concurrency=10)
async def noop(lease: rm.Lease[NarrowJob]) -> None:
    ticks.tick()
