"""What a handler answers or raises, and what becomes of its row."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import Column, Text

from rowmill import (
    Cancel,
    Columns,
    Dead,
    Done,
    Lease,
    Mill,
    PermanentError,
    Queue,
    RateLimited,
    Retry,
    RetryLater,
    States,
    TransientError,
    exponential,
    steps,
)
from rowmill.errors import ProviderDown
from tests.conformance.fleet import Member, jobs, worker


def queue_with(**options: Any) -> Callable[[Mill], Queue[Any]]:
    states = options.pop("states", States(waiting="waiting", cancelled="cancelled"))
    retry = options.pop("retry", Retry(backoff=steps(60, 300, 900)))

    def declare(mill: Mill) -> Queue[Any]:
        table = jobs(Column("result", Text), Column("code", Text))
        return mill.queue(table, columns=Columns(error_code="code"), states=states, retry=retry)

    return declare


async def once(member: Member, answer: Any) -> Any:
    """One row, one attempt with this answer; answers the row afterwards."""

    @member.queue.handler()
    async def work(lease: Lease[Any]) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    await member.put({})
    await member.bench.drain()
    return await member.row()


async def wait_of(member: Member) -> float:
    """After how many seconds the row can be claimed again: the first of some numbers."""
    passed = 0.0
    for seconds in (30, 45, 55, 62, 120, 290, 305, 890, 905):
        await member.bench.advance(seconds - passed)
        passed = seconds
        if await member.claim():
            return seconds
    raise AssertionError("the row does not come back")


async def test_done_with_values(database_url: str) -> None:
    async with worker(database_url, queue_with()) as member:
        row = await once(member, Done({"result": "good"}))
        assert (row.state, row.result, row.error, row.code, row.attempts) == ("done", "good", None, None, 1)


async def test_again_waits_for_the_backoff(database_url: str) -> None:
    async with worker(database_url, queue_with()) as member:
        row = await once(member, RetryLater())
        assert (row.state, row.attempts, row.error, row.code) == ("waiting", 1, "again", "again")
        assert row.finished_at is None
        assert await wait_of(member) == 62


@pytest.mark.parametrize("wait", [float("inf"), 1e12, Decimal(10**12), float("nan"), Decimal(60)])
@pytest.mark.parametrize("spend", [True, False])
async def test_a_wait_that_no_time_can_hold_is_a_wait_all_the_same(database_url: str, wait: Any, spend: bool) -> None:
    """As a header of a provider may say it. Taken for no wait at all, such a row would come back at once, for ever."""
    async with worker(database_url, queue_with()) as member:
        row = await once(member, RetryLater(after=wait, count_attempt=spend))
        assert (row.state, row.attempts, row.code) == ("waiting", int(spend), "again")
        await member.bench.advance(30)
        assert await member.claim() == []


@pytest.mark.parametrize("outcome", [RetryLater, Dead])
async def test_a_failure_without_a_code_or_a_message_is_written_all_the_same(database_url: str, outcome: Any) -> None:
    async with worker(database_url, queue_with()) as member:
        row = await once(member, outcome(code=None, message=None))
        assert (row.state, row.error, row.code) == (
            ("waiting", "again", "again") if outcome is RetryLater else ("dead", "dead", "dead")
        )


async def test_the_second_failure_waits_longer(database_url: str) -> None:
    async with worker(database_url, queue_with()) as member:
        await once(member, OSError("down"))
        await member.bench.advance(61)
        await member.bench.drain()
        assert (await member.row()).attempts == 2
        assert await wait_of(member) == 305


async def test_again_with_a_time_of_its_own(database_url: str) -> None:
    async with worker(database_url, queue_with()) as member:
        row = await once(member, RetryLater(50, "busy", "come back", values={"result": "half"}))
        assert (row.state, row.error, row.code, row.result) == ("waiting", "busy: come back", "busy", "half")
        assert await wait_of(member) == 55


async def test_again_on_the_last_attempt_is_dead(database_url: str) -> None:
    async with worker(database_url, queue_with(retry=Retry(attempts=1))) as member:
        row = await once(member, RetryLater(50, "busy"))
        assert (row.state, row.attempts, row.error) == ("dead", 1, "busy")
        assert row.finished_at is not None


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (RetryLater(50, "not now", count_attempt=False), "not now"),
        (RateLimited("slow down", retry_after=50), "rate_limited"),
        (ProviderDown("away", retry_after=50), "provider_down"),
    ],
    ids=["again", "rate limited", "provider down"],
)
async def test_waiting_for_a_provider_costs_no_attempt(database_url: str, answer: Any, code: str) -> None:
    """Even on the last attempt, and for ever."""
    async with worker(database_url, queue_with(retry=Retry(attempts=1))) as member:
        row = await once(member, answer)
        for _ in range(3):
            assert (row.state, row.attempts, row.code) == ("waiting", 0, code)
            await member.bench.advance(51)
            await member.bench.drain()
            row = await member.row()
        assert len(await member.own("attempt")) == 4


async def test_dead_is_kept_and_never_retried(database_url: str) -> None:
    async with worker(database_url, queue_with()) as member:
        row = await once(member, Dead("gone", "no such page", values={"result": "404"}))
        assert (row.state, row.error, row.code, row.result) == ("dead", "gone: no such page", "gone", "404")
        await member.bench.advance(10_000)
        assert (await member.bench.drain()).claimed == 0


async def test_cancel(database_url: str) -> None:
    async with worker(database_url, queue_with()) as member:
        row = await once(member, Cancel("deleted", values={"result": "none"}))
        assert (row.state, row.error, row.result) == ("cancelled", "cancelled: deleted", "none")
        assert row.finished_at is not None


async def test_cancel_in_a_queue_without_a_word_for_it_is_dead(database_url: str) -> None:
    async with worker(database_url, queue_with(states=States())) as member:
        row = await once(member, Cancel("deleted"))
        assert (row.state, row.code) == ("dead", "cancelled")


@pytest.mark.parametrize(
    ("error", "state", "text"),
    [
        (TransientError("net", code="net_down"), "waiting", "net_down: net"),
        (PermanentError("no rights", code="denied"), "dead", "denied: no rights"),
        (ValueError("odd"), "waiting", "ValueError: odd"),
        (KeyError(), "waiting", "KeyError"),
        (SystemExit(3), "waiting", "SystemExit: 3"),
    ],
)
async def test_an_exception_is_judged_by_its_type(
    database_url: str, error: BaseException, state: str, text: str
) -> None:
    async with worker(database_url, queue_with()) as member:
        row = await once(member, error)
        assert (row.state, row.error) == (state, text)


async def test_a_queue_says_which_exceptions_are_permanent(database_url: str) -> None:
    async with worker(database_url, queue_with(retry=Retry(permanent=(LookupError,)))) as member:
        assert (await once(member, KeyError("x"))).state == "dead"


async def test_a_queue_says_that_the_unknown_is_permanent(database_url: str) -> None:
    retry = Retry(unknown_is_permanent=True, transient=(OSError,))
    async with worker(database_url, queue_with(retry=retry)) as member:
        assert (await once(member, ValueError("x"))).state == "dead"
        await member.sql("DELETE FROM jobs")
        assert (await once(member, TimeoutError("x"))).state == "waiting"


async def test_a_failure_that_recovers_leaves_no_error(database_url: str) -> None:
    async with worker(database_url, queue_with(retry=Retry(backoff=exponential(30, cap=600)))) as member:
        row = await once(member, OSError("down"))
        assert row.error == "OSError: down"
        await member.bench.advance(31)
        member.queue.handlers.clear()

        @member.queue.handler()
        async def work(lease: Lease[Any]) -> dict[str, str]:
            return {"result": f"attempt {lease.attempt}"}

        await member.bench.drain()
        row = await member.row()
        assert (row.state, row.result, row.error, row.code) == ("done", "attempt 2", None, None)


@pytest.mark.parametrize("text", ["nul \x00 byte", "lone \ud800 surrogate", "x" * 5000, "%s %(a)s $1 :a {b}"])
async def test_any_text_may_be_an_error(database_url: str, text: str) -> None:
    async with worker(database_url, queue_with()) as member:
        row = await once(member, PermanentError(text, code=text))
        assert row.state == "dead"
        assert len(row.error) <= 1000
        assert row.error.startswith(text[:3])
        [entry] = await member.own("attempt")
        assert entry.message.startswith(text[:3])
        assert len(entry.code) <= 100


async def test_one_failure_does_not_touch_its_neighbours(database_url: str) -> None:
    async with worker(database_url, queue_with()) as member:

        @member.queue.handler()
        async def work(lease: Lease[Any]) -> Any:
            if lease.row.title == "13":
                raise PermanentError("unlucky")
            return {"result": lease.row.title}

        await member.put(*({"title": str(n)} for n in range(30)))
        report = await member.bench.drain()
        assert (report.done, report.dead) == (29, 1)
        assert {row.title for row in await member.rows() if row.state == "dead"} == {"13"}
