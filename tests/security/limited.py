"""An application whose handlers keep to limits of every kind."""

import rowmill as rm
from tests.conformance.fleet import jobs

mill = rm.Mill("postgresql://nobody@localhost:1/nothing")
letters = mill.queue(jobs(name="letters"))
post = mill.limit("post", rate=rm.limits.Rate(5, per=3600.0), concurrent=5, budget=rm.limits.Budget(100))


@letters.handler(limits=[post.by("title")])
async def send(lease: rm.Lease[rm.Record]) -> None: ...
