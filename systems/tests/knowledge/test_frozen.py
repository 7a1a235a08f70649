"""A process that stops at any step of an event: another one finishes its work. If it was only frozen, and goes on
later, nothing of what it still writes is seen or stays.

Each test stops a process before its first step, before its second, and so on, until it ends without being stopped.
On PostgreSQL, where each of these takes longer, every third step has to do.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rowmill.maintenance import upkeep
from rowmill.worker import Worker, WorkerSettings
from rowmill_systems.knowledge.bases import create_kb, request_kb_deletion
from rowmill_systems.knowledge.documents import request_deletion, request_reprocessing
from rowmill_systems.knowledge.events import dispatching, reading_chunks, running
from rowmill_systems.knowledge.knowledge import Knowledge
from rowmill_systems.knowledge.names import collection_of
from rowmill_systems.parts.documents.document import Document
from systems.tests.knowledge.harness import (
    HashEmbedder,
    PlainReaders,
    advance,
    assert_consistent,
    assert_gone,
    drain,
    events,
    kb_row,
    objects_of,
    put,
)

SILENT = WorkerSettings(poll_base=0.01, poll_max=0.05, heartbeat=3600.0, rescue_every=3600.0, grace=3600.0)
"""A worker that sends no sign of life, like one that is frozen."""


@pytest.fixture(autouse=True)
def frozen_processes_do_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Expired leases are rescued at the first look, and no run looks after its document while it reads."""
    monkeypatch.setattr(upkeep, "GRACE", 0.0)
    monkeypatch.setattr(reading_chunks, "PROGRESS_SECONDS", 3600.0)
    monkeypatch.setattr(running, "LOOK_SECONDS", 0.01)


class Steps:
    """Stops the process that takes the step of that number, until `go`."""

    def __init__(self, stop_at: int) -> None:
        self.taken, self._stop_at = 0, stop_at
        self.stopped, self.go = asyncio.Event(), asyncio.Event()
        self.workers: list[Worker] = []

    async def __call__(self) -> None:
        self.taken += 1
        if self.taken == self._stop_at:
            for worker in self.workers:
                worker.stop()  # it claims nothing more, as if the whole process were frozen
            self.stopped.set()
            await self.go.wait()


class Stepwise:
    """Something whose async methods are steps."""

    def __init__(self, inner: Any, step: Steps) -> None:
        self._inner, self._step = inner, step

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if asyncio.iscoroutinefunction(found):

            async def call(*given: Any, **options: Any) -> Any:
                await self._step()
                return await found(*given, **options)

            return call
        if name == "keys":

            async def iterate(*given: Any) -> AsyncIterator[Any]:
                await self._step()
                async for each in found(*given):
                    yield each

            return iterate
        return found


class SteppingReaders(PlainReaders):
    """Readers whose reading is a step."""

    def __init__(self, step: Steps) -> None:
        super().__init__()
        self._step = step

    async def read(self, *given: Any, **options: Any) -> Document:
        await self._step()
        return await super().read(*given, **options)


@asynccontextmanager
async def stopping_process(
    knowledge: Knowledge, stop_at: int, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Steps, asyncio.Task[Any]]]:
    """A second process that works until nothing is due, and stops at that step."""
    steps = Steps(stop_at)
    other = Knowledge(
        knowledge.settings,
        storage=Stepwise(knowledge.storage, steps),
        vectors=Stepwise(knowledge.vectors, steps),
        embedder=Stepwise(HashEmbedder(), steps),
    )
    other.readers = SteppingReaders(steps)
    run, dispatch = other.mill.run, dispatching.dispatch_event

    async def run_as_step(work: Callable[..., Any], **options: Any) -> Any:
        await steps()
        return await run(work, **options)

    async def dispatch_and_stop(system: Knowledge, event: Any) -> Any:
        answer = await dispatch(system, event)
        if system is other:
            await steps()
        return answer

    async with other.opened():
        monkeypatch.setattr(other.mill, "run", run_as_step)
        monkeypatch.setattr(dispatching, "dispatch_event", dispatch_and_stop)
        task = asyncio.create_task(other.mill.drain(["outbox"], settings=SILENT, begun=steps.workers.append))
        try:
            yield steps, task
        finally:
            steps.go.set()
            await task
            monkeypatch.setattr(dispatching, "dispatch_event", dispatch)


async def finish(knowledge: Knowledge) -> None:
    """Take over what the stopped process has, and work until all events are processed."""
    await advance(knowledge, knowledge.settings.lease_seconds)
    for _ in range(5):
        await drain(knowledge)
        if {event.state for event in await events(knowledge)} == {"processed"}:
            return
        await advance(knowledge, 60)
    raise AssertionError([tuple(event) for event in await events(knowledge)])


def steps_of(knowledge: Knowledge) -> range:
    return range(1, 100, 3 if knowledge.mill.url.get_backend_name() == "postgresql" else 1)


async def stop_at_every_step(
    knowledge: Knowledge,
    monkeypatch: pytest.MonkeyPatch,
    prepare: Callable[[], Awaitable[Any]],
    check: Callable[[Any], Awaitable[None]],
    meanwhile: Callable[[Any], Awaitable[None]] | None = None,
) -> int:
    """Return the first number that is no step any more. `meanwhile` happens before the stopped process goes on."""
    for stop_at in steps_of(knowledge):
        made = await prepare()
        async with stopping_process(knowledge, stop_at, monkeypatch) as (steps, task):
            stopped = asyncio.create_task(steps.stopped.wait())
            await asyncio.wait({stopped, task}, return_when=asyncio.FIRST_COMPLETED)
            if not steps.stopped.is_set():
                stopped.cancel()
                await check(made)
                return stop_at
            await finish(knowledge)
            await check(made)
            if meanwhile is not None:
                await meanwhile(made)
        await check(made)
    raise AssertionError("it never came to its end")


async def test_processing(knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch) -> None:
    """K4: resumable after a kill at any line."""
    kb_id = await create_kb(knowledge, "a")

    async def check(document_id: Any) -> None:
        await assert_consistent(knowledge, kb_id, document_id)

    assert await stop_at_every_step(knowledge, monkeypatch, lambda: put(knowledge, kb_id), check) > 12


async def test_reprocessing(knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch) -> None:
    """The older generation is shown until the new one is complete, and swept afterwards."""
    kb_id = await create_kb(knowledge, "a")

    async def prepare() -> Any:
        document_id = await put(knowledge, kb_id)
        await drain(knowledge)
        await request_reprocessing(knowledge, document_id, "a person")
        return document_id

    async def check(document_id: Any) -> None:
        await assert_consistent(knowledge, kb_id, document_id)

    async def again(document_id: Any) -> None:
        await request_reprocessing(knowledge, document_id, "a person")
        await drain(knowledge)

    assert await stop_at_every_step(knowledge, monkeypatch, prepare, check, again) > 13


async def test_deleting(knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch) -> None:
    kb_id = await create_kb(knowledge, "a")

    async def prepare() -> Any:
        document_id = await put(knowledge, kb_id)
        await drain(knowledge)
        await request_deletion(knowledge, document_id)
        return document_id

    async def check(document_id: Any) -> None:
        await assert_gone(knowledge, kb_id, document_id)

    assert await stop_at_every_step(knowledge, monkeypatch, prepare, check) > 4


async def test_deleting_while_a_run_is_stopped(knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that finds itself overtaken removes what it wrote."""
    kb_id = await create_kb(knowledge, "a")
    for stop_at in steps_of(knowledge):
        document_id = await put(knowledge, kb_id)
        async with stopping_process(knowledge, stop_at, monkeypatch) as (steps, task):
            stopped = asyncio.create_task(steps.stopped.wait())
            await asyncio.wait({stopped, task}, return_when=asyncio.FIRST_COMPLETED)
            await request_deletion(knowledge, document_id)
            if not steps.stopped.is_set():
                stopped.cancel()
                break
            await finish(knowledge)
            await assert_gone(knowledge, kb_id, document_id)
        await assert_gone(knowledge, kb_id, document_id)
    assert stop_at > 12


async def test_deleting_a_knowledge_base(knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch) -> None:
    async def prepare() -> Any:
        kb_id = await create_kb(knowledge, "a")
        documents = [await put(knowledge, kb_id) for _ in range(2)]
        await drain(knowledge)
        await request_kb_deletion(knowledge, kb_id)
        return kb_id, documents

    async def check(made: Any) -> None:
        await assert_kb_gone(knowledge, *made)

    assert await stop_at_every_step(knowledge, monkeypatch, prepare, check) > 8


async def test_deleting_a_knowledge_base_while_a_run_is_stopped(
    knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dropped collection does not come back by a late write."""
    for stop_at in steps_of(knowledge):
        kb_id = await create_kb(knowledge, "a")
        document_id = await put(knowledge, kb_id)
        async with stopping_process(knowledge, stop_at, monkeypatch) as (steps, task):
            stopped = asyncio.create_task(steps.stopped.wait())
            await asyncio.wait({stopped, task}, return_when=asyncio.FIRST_COMPLETED)
            await request_kb_deletion(knowledge, kb_id)
            if not steps.stopped.is_set():
                stopped.cancel()
                break
            await drain(knowledge)
            assert (await kb_row(knowledge, kb_id)).status == "deleting", "it waits for the run"
            await finish(knowledge)
            await assert_kb_gone(knowledge, kb_id, [document_id])
        await assert_kb_gone(knowledge, kb_id, [document_id])
    assert stop_at > 12


async def assert_kb_gone(knowledge: Knowledge, kb_id: Any, documents: list[Any]) -> None:
    assert (await kb_row(knowledge, kb_id)).status == "archived"
    for document_id in documents:
        await assert_gone(knowledge, kb_id, document_id)
    assert collection_of(kb_id) not in [each.name async for each in knowledge.vectors.collections()]
    assert await objects_of(knowledge, kb_id) == []
