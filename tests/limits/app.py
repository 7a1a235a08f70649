"""`rowmill work tests.limits.app:mill`: jobs that call a provider within limits which the environment names."""

import os
from typing import Any, Literal

import rowmill as rm
from tests.support.provider import get
from tests.work.shop import WORDS, job_table

URL, PROVIDER, LIMIT = "ROWMILL_DATABASE_URL", "LIMITS_PROVIDER", "LIMITS_LIMIT"
CRASHED = "LIMITS_CRASHED"
LEASE = 2.0


def build(url: str) -> tuple[rm.Mill, rm.Queue[Any]]:
    mill = rm.Mill(url)
    return mill, mill.queue(job_table(), states=WORDS, lease=LEASE, retry=rm.Retry(attempts=50))


def rate_of(text: str) -> rm.limits.Rate:
    """Of "50/1" or "50/1/0.2": calls, seconds, margin."""
    calls, *seconds = text.split("/")
    return rm.limits.Rate(int(calls), *(float(part) for part in seconds))


def declare(mill: rm.Mill, jobs: rm.Queue[Any]) -> None:
    kind, _, text = os.environ[LIMIT].partition(":")
    provider = os.environ[PROVIDER]
    if kind == "rate":
        eqc = mill.limit("eqc", rate=rate_of(text))

        @jobs.handler(limits=[eqc], concurrency=10)
        async def look_up(job: rm.Lease[Any]) -> None:
            await get(provider, f"/{job.key}")

    else:
        crashed: Literal["spent", "back"] = "spent" if os.environ.get(CRASHED) == "spent" else "back"
        budget = rm.limits.Budget(int(text), per="month", crashed=crashed)
        model = mill.limit("model", budget=budget, lease=LEASE)

        @jobs.handler(concurrency=4)
        async def ask(job: rm.Lease[Any]) -> None:
            async with model.call():
                await get(provider, f"/{job.key}")


if PROVIDER in os.environ:
    mill, jobs = build(os.environ[URL])
    declare(mill, jobs)
