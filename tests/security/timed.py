"""An application with a schedule, and rows that go after their time."""

import rowmill as rm
from tests.conformance.fleet import jobs

mill = rm.Mill("postgresql://nobody@localhost:1/nothing")
parcels = mill.queue(jobs(name="parcels"), retention=rm.Retention(done=rm.hours(1)))


@parcels.handler()
async def send(lease: rm.Lease[rm.Record]) -> None: ...


@mill.every("beat", rm.seconds(1))
async def beat(tick: rm.schedules.Tick) -> None: ...
