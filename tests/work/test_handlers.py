"""Handlers of every kind are run, judged, and kept apart from each other."""

import asyncio
import inspect
import json
import random
import threading
from collections.abc import Callable
from typing import Any

import pytest

from rowmill import Cancel, Dead, Done, Lease, PermanentError, RateLimited, Retry, RetryLater, TransientError, fixed
from rowmill.errors import DeclarationError
from rowmill.worker.handler import HandlerRunner
from rowmill.worker.settings import WorkerSettings
from tests.work.shop import shop_on, soon

NOW = Retry(attempts=3, backoff=fixed(0.0))


async def test_an_async_handler_runs_on_the_loop_and_its_values_are_written(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        threads = set()

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> dict[str, str]:
            threads.add(threading.current_thread())
            return {"result": job.row.title.upper()}

        await shop.put(5, title="a")
        report = await shop.drain()

        assert report.done == 5
        assert {row.result for row in (await shop.rows()).values()} == {"A"}
        assert threads == {threading.main_thread()}


async def test_a_sync_handler_runs_in_a_thread_and_does_not_hold_up_the_loop(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        loop, turned = asyncio.get_running_loop(), threading.Event()

        @shop.jobs.handler(concurrency=2)
        def handle(job: Lease[Any]) -> Done:
            assert threading.current_thread() is not threading.main_thread()
            loop.call_soon_threadsafe(turned.set)
            assert turned.wait(20)
            return Done({"result": "sync"})

        await shop.put(4)
        report = await shop.drain()

        assert report.done == 4
        assert {row.result for row in (await shop.rows()).values()} == {"sync"}


ANSWERS: dict[int, Any] = {
    1: None,
    2: {"result": "r"},
    3: Dead("bad", "no"),
    4: Cancel("unwanted"),
    5: RetryLater(after=3600.0),
    6: 17,
    7: {"no_such_column": 1},
    8: {"state": "done"},
}
STATES = {1: "done", 2: "done", 3: "dead", 4: "cancelled", 5: "waiting", 6: "dead", 7: "dead", 8: "dead"}


@pytest.mark.parametrize("kind", ["async", "sync", "batch"])
async def test_each_answer_decides_over_its_own_row_only(database_url: str, kind: str) -> None:
    async with shop_on(database_url) as shop:
        register(shop.jobs, kind, lambda job: ANSWERS[job.key])

        await shop.put(8)
        report = await shop.drain()

        assert {key: row.state for key, row in (await shop.rows()).items()} == STATES
        assert (report.done, report.dead, report.again, report.cancelled) == (2, 4, 1, 1)


ERRORS: dict[int, BaseException | None] = {
    1: None,
    2: TransientError("later"),
    3: PermanentError("never"),
    4: RateLimited(retry_after=3600.0),
    5: ValueError("what"),
    6: SystemExit(3),
    7: StopIteration(),
    8: TimeoutError("of somebody else"),
}
AFTER = {1: "done", 2: "waiting", 3: "dead", 4: "waiting", 5: "waiting", 6: "waiting", 7: "waiting", 8: "waiting"}


@pytest.mark.parametrize("kind", ["async", "sync", "batch"])
async def test_errors_never_touch_neighbours(database_url: str, kind: str) -> None:
    async with shop_on(database_url, retry=Retry(attempts=3, backoff=fixed(3600.0))) as shop:

        def answer(job: Lease[Any]) -> None:
            error = ERRORS[job.key]
            if error is not None:
                raise error

        register(shop.jobs, kind, answer)
        await shop.put(8)
        await shop.drain()

        rows = await shop.rows()
        assert {key: row.state for key, row in rows.items()} == AFTER
        assert rows[4].attempts == 0, "a rate limit costs no attempt"
        assert rows[8].error == "TimeoutError: of somebody else", "not mistaken for a time-out of ours"


def register(jobs: Any, kind: str, answer: Callable[[Lease[Any]], Any]) -> None:
    if kind == "sync":
        jobs.handler(concurrency=4)(answer)
    elif kind == "async":

        @jobs.handler(concurrency=4)
        async def handle(job: Lease[Any]) -> Any:
            await asyncio.sleep(0)
            return answer(job)

    else:

        @jobs.batch_handler(size=3)
        async def handle_many(batch: list[Lease[Any]]) -> Any:
            # The limit of a provider holds for a whole batch.
            return [attempt(answer, job) if job.key == 4 else answer(job) for job in batch]


def attempt(answer: Callable[[Lease[Any]], Any], job: Lease[Any]) -> Any:
    try:
        return answer(job)
    except RateLimited as error:
        return error


async def test_a_handler_that_raises_cancelled_error_spends_its_attempts(database_url: str) -> None:
    """Given back with its attempt, it would come again at once, for ever."""
    async with shop_on(database_url, retry=NOW) as shop:
        calls = []

        @shop.jobs.handler(concurrency=1)
        async def handle(job: Lease[Any]) -> None:
            calls.append(job.key)
            if job.key == 1:
                raise asyncio.CancelledError("of a library that leaks it")

        await shop.put(2)
        report = await shop.drain()

        assert (await shop.row(1)).state == "dead"
        assert (await shop.row(2)).state == "done"
        assert calls.count(1) == 3
        assert [code for _, code in await shop.failures(1)] == ["CancelledError"] * 3
        assert report.dead == 1


async def test_a_handler_that_cancels_its_own_task_leaves_the_slot_usable(database_url: str) -> None:
    async with shop_on(database_url, retry=Retry(attempts=1)) as shop:
        went_on = asyncio.Event()

        @shop.jobs.handler(concurrency=1)
        async def handle(job: Lease[Any]) -> None:
            if job.key == 1:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
                await asyncio.sleep(0)
            if job.key == 2:
                # A cancellation that is still counted would make task groups and time-outs take it for theirs.
                task = asyncio.current_task()
                assert task is not None
                assert task.cancelling() == 0
                went_on.set()

        await shop.put(2)
        await shop.drain()

        await soon(went_on)
        assert await shop.states() == {"dead": 1, "done": 1}


async def test_context_variables_reach_a_sync_handler(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        seen = []

        @shop.jobs.handler()
        def handle(job: Lease[Any]) -> None:
            seen.append((job.attempt, job.last_attempt, job.lost))

        await shop.put(1)
        await shop.drain()

        assert seen == [(1, False, False)]


@pytest.mark.parametrize("kind", ["async", "sync", "batch"])
async def test_an_event_names_the_line_that_raised_and_not_what_it_said(database_url: str, kind: str) -> None:
    async with shop_on(database_url) as shop:

        def deeper() -> None:
            json.loads("secret")  # raised in a library, because of this line

        if kind == "async":

            @shop.jobs.handler()
            async def handle(job: Lease[Any]) -> None:
                deeper()
        elif kind == "sync":

            @shop.jobs.handler()
            def handle_in_a_thread(job: Lease[Any]) -> None:
                deeper()
        else:

            @shop.jobs.batch_handler(size=5)
            async def handle_many(jobs: list[Lease[Any]]) -> None:
                deeper()

        await shop.put(1)
        await shop.drain()

        [fields] = [fields for name, fields in shop.events if name == "settled"]
        assert fields["at"] == f"test_handlers.py:{deeper.__code__.co_firstlineno + 1}"
        assert "secret" not in str(fields)


async def test_an_exception_that_was_returned_was_raised_nowhere(database_url: str) -> None:
    async with shop_on(database_url) as shop:

        @shop.jobs.batch_handler(size=5)
        async def handle(jobs: list[Lease[Any]]) -> list[Exception]:
            return [ValueError("no") for _ in jobs]

        await shop.put(1)
        await shop.drain()

        [fields] = [fields for name, fields in shop.events if name == "settled"]
        assert "at" not in fields


class Panic(BaseException):
    """As extensions raise it that are written in other languages: no `Exception`."""


@pytest.mark.parametrize("kind", ["async", "sync", "batch"])
async def test_whatever_a_handler_raises_stays_with_its_row(database_url: str, kind: str) -> None:
    async with shop_on(database_url, retry=NOW) as shop:

        def answer(job: Lease[Any]) -> None:
            if job.key == 2:
                raise Panic("of a library")

        register(shop.jobs, kind, answer)
        await shop.put(3)
        report = await shop.drain()

        assert {key: row.state for key, row in (await shop.rows()).items()} == {1: "done", 2: "dead", 3: "done"}
        assert [code for _, code in await shop.failures(2)] == ["Panic"] * 3
        assert report.lost == 0


async def test_a_function_that_answers_with_a_coroutine_is_awaited(database_url: str) -> None:
    """As what many decorators make of an async handler."""
    async with shop_on(database_url, retry=Retry(attempts=1)) as shop:

        def decorated(call: Callable[[Lease[Any]], Any]) -> Callable[[Lease[Any]], Any]:
            return lambda job: call(job)

        @shop.jobs.handler(timeout=0.2)
        @decorated
        async def handle(job: Lease[Any]) -> dict[str, str]:
            await asyncio.sleep(0.0 if job.key == 1 else 3600)
            return {"result": "awaited"}

        await shop.put(2)
        await shop.drain()

        assert (await shop.row(1)).result == "awaited"
        assert await shop.failures(2) == [(1, "timeout")]


async def test_a_backoff_that_fails_on_a_handler_that_was_cut_short_fails_its_row_alone(sqlite_url: str) -> None:
    def backoff(attempt: int) -> float:
        raise ZeroDivisionError

    async with shop_on(sqlite_url, retry=Retry(attempts=3, backoff=backoff)) as shop:

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> None:
            if job.key == 1:
                raise asyncio.CancelledError

        await shop.put(2)
        await shop.drain()

        row = await shop.row(1)
        assert (row.state, row.attempts, (await shop.row(2)).state) == ("waiting", 1, "done")
        remark = "(the queue's backoff gave no wait: ZeroDivisionError; the default was taken)"
        assert row.error == f"CancelledError: {remark}"


@pytest.mark.parametrize("kind", ["async", "sync", "batch"])
async def test_generator_exit_is_a_failure_like_any_other(database_url: str, kind: str) -> None:
    async with shop_on(database_url, retry=NOW) as shop:

        def answer(job: Lease[Any]) -> None:
            if job.key == 2:
                raise GeneratorExit

        register(shop.jobs, kind, answer)
        await shop.put(3)
        await shop.drain()

        assert {key: row.state for key, row in (await shop.rows()).items()} == {1: "done", 2: "dead", 3: "done"}
        assert [code for _, code in await shop.failures(2)] == ["GeneratorExit"] * 3


async def test_a_coroutine_that_is_thrown_away_ends_quietly(sqlite_url: str) -> None:
    """Python closes it with GeneratorExit: a verdict then would be an answer that nobody gave."""
    async with shop_on(sqlite_url) as shop:

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> None:
            await asyncio.Event().wait()

        await shop.put(1)
        async with shop.mill.worker() as worker:
            [station] = worker.stages
            [lease] = await shop.mill.store.claim(station.queue, station.step, 1)
            task = asyncio.create_task(
                asyncio.sleep(0)
            )  # of somebody else: nobody runs the coroutine when it is closed
            runner = HandlerRunner(station.handler, random.random, None, lambda threads: None)
            running = runner.run([lease], task)
            running.send(None)
            running.close()
            assert inspect.getcoroutinestate(running) == inspect.CORO_CLOSED


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_keyboard_interrupt_ends_the_worker_and_costs_only_its_own_row_an_attempt(
    database_url: str, kind: str
) -> None:
    """Somebody wants this process to end: it does as if a signal had told it. A row that raises it every time must not
    come again for ever, so it costs that row an attempt, as a crash would."""
    async with shop_on(database_url, retry=NOW) as shop:
        begun = asyncio.Event()
        loop = asyncio.get_running_loop()

        def answer(job: Lease[Any]) -> None:
            if job.key == 1:
                asyncio.run_coroutine_threadsafe(begun.wait(), loop).result(20)
                raise KeyboardInterrupt

        if kind == "sync":
            shop.jobs.handler(concurrency=1)(answer)
        else:

            @shop.jobs.handler(concurrency=1)
            async def handle(job: Lease[Any]) -> None:
                await begun.wait()
                raise KeyboardInterrupt

        await shop.put(5)
        async with shop.mill.worker(settings=WorkerSettings(grace=20.0)) as worker:
            loop.call_later(0.0, begun.set)
            with pytest.raises(KeyboardInterrupt):
                async with asyncio.timeout(20):
                    await worker.run()

        rows = await shop.rows()
        assert (rows[1].state, rows[1].attempts, rows[1].error) == ("waiting", 1, "KeyboardInterrupt")
        assert {(row.state, row.attempts, row.lease) for key, row in rows.items() if key != 1} == {("ready", 0, None)}


async def test_a_handler_is_registered_without_brackets(database_url: str) -> None:
    async with shop_on(database_url) as shop:

        @shop.jobs.handler
        async def handle(job: Lease[Any]) -> dict[str, str]:
            return {"result": "bare"}

        await shop.put(1)
        await shop.drain()

        assert inspect.iscoroutinefunction(handle), "it is after the decorator what it was before"
        assert (await shop.row()).result == "bare"


async def test_a_stage_that_is_not_named_is_answered_with_the_way_to_name_it(sqlite_url: str) -> None:
    async with shop_on(sqlite_url) as shop:
        with pytest.raises(DeclarationError, match="takes options by name: write stage='work'"):
            shop.jobs.handler("work")  # type: ignore[call-overload]


async def test_a_batch_handler_without_a_size_says_how_to_give_it(sqlite_url: str) -> None:
    async with shop_on(sqlite_url) as shop:

        async def handle(jobs: list[Lease[Any]]) -> None: ...

        with pytest.raises(DeclarationError, match=r"write batch_handler\(size=100\)"):
            shop.jobs.batch_handler()  # type: ignore[call-overload]
        with pytest.raises(DeclarationError, match=r"write batch_handler\(size=100\)"):
            shop.jobs.batch_handler(handle)
