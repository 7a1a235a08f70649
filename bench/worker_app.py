"""An application with one queue on a `Table`. `rowmill work bench.worker_app:mill` is the worker whose memory and start
are measured. It imports what any application needs, so that what the worker takes is Rowmill's own."""

import sqlalchemy as sa

import rowmill as rm
from bench.peers.kit import Ticks
from bench.tables import STATES, narrow

mill = rm.Mill()
jobs = mill.queue(narrow(sa.MetaData()), states=STATES)
ticks = Ticks()


@jobs.handler(concurrency=10)
async def noop(lease: rm.Lease[rm.Record]) -> None:
    ticks.tick()
