"""A real queue: while the model is away no file loses an attempt, and when it is back all are read."""

import asyncio
from typing import Any

import rowmill as rm
from systems.tests.intake.model.conftest import Maker
from systems.tests.intake.model.paper import CATALOGUE, PAPER, RIGHT
from systems.tests.model_server import ModelServer, Reply, answer
from tests.work.shop import shop_on, until

FILES = 12


async def test_no_file_is_lost_and_no_attempt_is_spent_while_the_provider_is_down(
    sqlite_url: str, server: ModelServer, mapper: Maker
) -> None:
    """F5."""
    well: list[bool] = []
    trouble = [Reply(500), Reply(cut_at=0, body=b"{}"), Reply(503), Reply(hangs=True)]
    server.looked = lambda: Reply(502)
    server.reply = lambda asked, number: answer(RIGHT, used=10) if well else trouble[number % len(trouble)]
    async with shop_on(sqlite_url, retry=rm.Retry(attempts=1)) as shop:
        limit = shop.mill.limit(
            "of-this-shop", rate=rm.limits.Rate(100, per=1.0), concurrent=2,
            budget=rm.limits.Budget(100_000, per="day"),
            breaker=rm.limits.Breaker(failures=3, pause=0.2, longest=0.2),
        )  # fmt: skip
        model = mapper(limit=limit, timeout=0.3)

        @shop.jobs.handler(concurrency=4)
        async def read(job: rm.Lease[Any]) -> dict[str, str]:
            mapped = await model.map(PAPER, doc_type=None, catalogue=CATALOGUE)
            return {"result": str(len(mapped.suggestions))}

        await shop.put(FILES)
        async with shop.working():
            await until(lambda: shop.named("limit_opened"))
        down, calls = await shop.rows(), len(server.asked)
        well.append(True)
        await limit.on()
        async with shop.working() as working:
            while working.worker.report.done < FILES:  # a row that finds no room goes back until its turn
                await shop.sql("UPDATE job SET available_at = NULL WHERE state IN ('ready', 'waiting')")
                await asyncio.sleep(0.02)
        rows, state = await shop.rows(), await limit.state()

    assert calls >= 3
    assert {row.attempts for row in down.values()} == {0}
    assert {row.state for row in down.values()} <= {"ready", "waiting"}
    assert {row.state for row in rows.values()} == {"done"}
    assert {row.result for row in rows.values()} == {"4"}
    assert state.reserved == 0
