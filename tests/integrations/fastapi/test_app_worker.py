"""A worker inside an application, in this process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx2
import pytest
import sqlalchemy as sa
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Route

import rowmill as rm
from rowmill.integrations import fastapi as integration
from rowmill.integrations.fastapi import AppWorker, health_endpoint, health_router, rowmill_lifespan
from rowmill.store.own.schema import own_tables
from tests.integrations.fastapi.app import SETTINGS, make_app, make_mill
from tests.support.web import client_of


@pytest.fixture(autouse=True)
def _asked_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(integration, "REMEMBER_SECONDS", 0.0)


async def until(check: Any) -> Any:
    async with asyncio.timeout(30):
        while not (found := await check()):
            await asyncio.sleep(0.01)
        return found


async def insert(mill: rm.Mill, *whats: str) -> None:
    rows = [{"what": what} for what in whats]
    await mill.run(lambda connection: connection.execute(mill["job"].insert(rows)).close())


async def health(client: httpx2.AsyncClient) -> tuple[int, Any]:
    answer = await client.get("/health")
    return answer.status_code, answer.json()


async def healthy(client: httpx2.AsyncClient) -> Any:
    code, found = await health(client)
    return found if code == 200 else None


def quick(attempt: int) -> float:
    return 0.01


async def test_it_works_beside_the_application_and_says_so(database_url: str) -> None:
    mill = make_mill(database_url)
    await mill.migrate(tables=True)
    async with client_of(make_app(mill)) as client:
        found = await until(lambda: healthy(client))
        [worker] = found["workers"]
        assert (found["status"], worker["status"], worker["restarts"], worker["last_error"]) == ("ok", "ok", 0, None)
        assert worker["heartbeat_seconds"] < 30
        assert worker["queues"] == {"job": {"ready": 0, "capped": False, "oldest_seconds": None}}
        await insert(mill, "a", "b")

        async def done() -> bool:
            return (await mill["job"].counts()).done == 2

        await until(done)
    workers = own_tables(mill.store.dialect.name).worker
    stopped = await mill.run(lambda c: c.scalars(sa.select(workers.c.stopped_at)).all(), write=False)
    assert len(stopped) == 1
    assert stopped[0] is not None, "it signed off"


async def test_the_depth_is_capped(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(integration, "CAP", 2)
    mill = make_mill(database_url)
    await mill.migrate(tables=True)
    await insert(mill, "a", "b", "c")
    worker = AppWorker(mill)
    found = await mill.run(lambda connection: worker._read(connection, None), write=False)
    assert (found[1]["job"].ready, found[1]["job"].capped) == (2, True)
    assert found[1]["job"].oldest_seconds is not None


async def test_a_worker_that_somebody_cancels_is_started_again(database_url: str) -> None:
    """A task that died on a CancelledError was down for ten days in a system like this."""
    mill = make_mill(database_url)
    await mill.migrate(tables=True)
    app = FastAPI()
    app.include_router(health_router())
    async with client_of(app) as client, AppWorker(mill, backoff=quick).running(app) as worker:
        await until(lambda: healthy(client))
        [task] = [each for each in asyncio.all_tasks() if each.get_name() == "rowmill worker"]
        task.cancel()

        async def restarted() -> bool:
            return worker.restarts == 1 and (await worker.health()).ok

        await until(restarted)
        _, found = await health(client)
        assert found["workers"][0]["last_error"] == "cancelled"
        await insert(mill, "a")

        async def done() -> bool:
            return (await mill["job"].counts()).done == 1

        await until(done)


async def test_a_worker_that_can_t_start_is_tried_again_and_reported(database_url: str) -> None:
    mill = make_mill(database_url)
    await mill.migrate()
    app = FastAPI()
    app.include_router(health_router())
    async with client_of(app) as client, AppWorker(mill, backoff=quick).running(app) as worker:

        async def failed() -> bool:
            return worker.restarts > 1

        await until(failed)
        code, found = await health(client)
        assert code == 503
        assert found["status"] in ("restarting", "starting")
        assert found["workers"][0]["last_error"] == "TableMismatch"
        await mill.migrate(tables=True)
        await until(lambda: healthy(client))


async def test_without_a_database_the_application_answers_and_says_so() -> None:
    mill = make_mill("postgresql://nobody@127.0.0.1:1/none")
    app = FastAPI()
    app.include_router(health_router())
    async with client_of(app) as client, AppWorker(mill, backoff=quick).running(app):
        code, found = await health(client)
        assert (code, found["status"]) == (503, "database_unreachable")
        assert found["workers"][0]["last_error"] == "DatabaseUnreachable"
        assert "nobody" not in str(found)


async def test_a_worker_whose_heartbeats_do_not_arrive_is_found_dead(database_url: str) -> None:
    mill = make_mill(database_url)
    await mill.migrate(tables=True)
    app = FastAPI()
    app.include_router(health_router())
    seldom = replace(SETTINGS, heartbeat=3600.0)
    async with client_of(app) as client, AppWorker(mill, settings=seldom).running(app):
        await until(lambda: healthy(client))
        workers = own_tables(mill.store.dialect.name).worker

        async def silent() -> bool:
            # The first heartbeat may still be on its way.
            await mill.run(lambda c: c.execute(sa.update(workers).values(seen_at=workers.c.started_at)).close())
            old = sa.text(
                "UPDATE rowmill.worker SET seen_at = seen_at - interval '31 seconds'"
                if database_url.startswith("postgresql")
                else "UPDATE rowmill_worker SET seen_at = strftime('%Y-%m-%d %H:%M:%f000', seen_at, '-31 seconds')"
            )
            await mill.run(lambda c: c.execute(old).close())
            return (await health(client))[0] == 503

        await until(silent)
        code, found = await health(client)
        assert (code, found["status"]) == (503, "stale")
        assert found["workers"][0]["heartbeat_seconds"] > 30


async def test_it_is_part_of_a_lifespan_that_is_there(database_url: str) -> None:
    mill = make_mill(database_url)
    await mill.migrate(tables=True)
    seen: list[str] = []

    @asynccontextmanager
    async def own(app: Any) -> AsyncIterator[dict[str, int]]:
        seen.append("opened")
        yield {"answer": 42}
        alive = sa.select(sa.func.count()).where(own_tables(mill.store.dialect.name).worker.c.stopped_at.is_(None))
        seen.append(f"closed, {await mill.run(lambda c: c.scalar(alive), write=False)} workers left")

    app = Starlette(lifespan=rowmill_lifespan(mill, lifespan=own), routes=[Route("/health", health_endpoint)])
    async with client_of(app) as client:  # type: ignore[arg-type]
        await until(lambda: healthy(client))
        assert seen == ["opened"]
    assert seen == ["opened", "closed, 0 workers left"]


async def test_an_application_without_a_worker_is_healthy() -> None:
    app = FastAPI()
    app.include_router(health_router("/healthz"))
    async with client_of(app) as client:
        answer = await client.get("/healthz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok", "workers": []})


async def test_probes_at_once_ask_the_database_once(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(integration, "REMEMBER_SECONDS", 60.0)
    mill = make_mill(database_url)
    await mill.migrate(tables=True)
    async with AppWorker(mill).running() as worker:
        asked: list[int] = []
        look = worker._look

        async def counted() -> Any:
            asked.append(1)
            return await look()

        monkeypatch.setattr(worker, "_look", counted)

        async def ok() -> bool:
            return (await worker.health()).ok

        await until(ok)
        before = len(asked)
        await asyncio.gather(*(worker.health() for _ in range(50)))
        assert len(asked) == before


async def test_a_worker_that_is_cancelled_for_good_is_found_dead(database_url: str) -> None:
    mill = make_mill(database_url)
    await mill.migrate(tables=True)
    app = FastAPI()
    app.include_router(health_router())
    async with client_of(app) as client, AppWorker(mill).running(app):
        await until(lambda: healthy(client))
        [task] = [each for each in asyncio.all_tasks() if each.get_name() == "rowmill worker of the application"]
        task.cancel()
        await asyncio.wait({task})
        code, found = await health(client)
        assert (code, found["status"]) == (503, "stopped")


async def test_a_queue_that_is_not_there_keeps_the_application_from_starting(database_url: str) -> None:
    lifespan = rowmill_lifespan(make_mill(database_url), queues=["jobs"])
    with pytest.raises(rm.errors.UnknownQueue, match="It has: job"):
        async with lifespan(FastAPI()):
            pass


async def test_stopping_twice_and_before_the_start(database_url: str) -> None:
    mill = make_mill(database_url)
    await mill.migrate(tables=True)
    worker = AppWorker(mill)
    await worker.stop()
    worker.start()
    worker.start()
    await worker.stop()
    await worker.stop()
    assert (await worker.health()).status == "stopped"
