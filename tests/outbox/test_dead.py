"""Dead events: kept, told of once, and what they do to those behind them."""

import json
import logging
from typing import Any, Literal

import pytest

import rowmill as rm
from rowmill.cli.logs import JsonLines
from rowmill.maintenance import upkeep
from rowmill.maintenance.upkeep import Upkeep
from rowmill.operator.change import requeue
from rowmill.operator.filters import Filter
from rowmill.worker.settings import WorkerSettings
from tests.outbox.post import Post, post_on

NOW = rm.Retry(attempts=5, backoff=rm.fixed(0))


def alerts(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.levelno == logging.CRITICAL]


def failing(post: Post, message: str = "no use") -> list[tuple[str, int]]:
    """A handler that fails for aggregate a; answers what it was called for."""
    calls: list[tuple[str, int]] = []

    @post.outbox.on("document.process")
    async def process(event: rm.outbox.Event) -> None:
        calls.append((event.aggregate_id, event.payload))
        if event.aggregate_id == "a" and event.payload == 1:
            raise rm.TransientError(message, code="broken")

    return calls


async def write(post: Post) -> None:
    for n in (1, 2):
        await post.add(("document.process", "a"), ("document.process", "b"), payload=n)


async def test_at_five_attempts_an_event_is_dead_and_one_record_says_so(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """K3."""
    async with post_on(database_url, retry=NOW) as post:
        calls = failing(post, "x" * 5000)
        await write(post)
        with caplog.at_level(logging.INFO, "rowmill"):
            await post.drain()
            await post.drain()
        first = (await post.rows())[0]
        assert (first.state, first.attempts, len(first.last_error)) == ("dead", 5, 1000)
        assert calls.count(("a", 1)) == 5
        [record] = alerts(caplog)
        assert vars(record)["alert"] == "ADMIN_INTERVENTION_REQUIRED"
        line = json.loads(JsonLines().format(record))
        assert line["severity"] == "CRITICAL"
        assert line["alert"] == "ADMIN_INTERVENTION_REQUIRED"
        assert (line["event_id"], line["event_type"], line["aggregate_id"]) == (first.id, "document.process", "a")
        assert line["last_error"] == first.last_error
        assert (line["error_code"], line["attempts"], line["queue"]) == ("broken", 5, "outbox")
        [told] = post.named("dead_event")
        assert told["event_id"] == first.id


@pytest.mark.parametrize("policy", ["block", "skip"])
async def test_what_a_dead_event_does_to_its_aggregate(database_url: str, policy: Literal["block", "skip"]) -> None:
    async with post_on(database_url, retry=NOW, on_dead=policy) as post:
        calls = failing(post)
        await write(post)
        await post.drain()
        behind = [("a", 2)] if policy == "skip" else []
        assert sorted(set(calls)) == [("a", 1), *behind, ("b", 1), ("b", 2)]
        assert await post.states() == ["dead", "processed", "processed" if behind else "pending", "processed"]


async def test_a_dead_event_that_is_put_back_goes_before_those_behind_it(database_url: str) -> None:
    async with post_on(database_url, retry=rm.Retry(attempts=1)) as post:
        calls = failing(post)
        await write(post)
        await post.drain()
        post.outbox.on("document.process")(mended := _remember(calls))
        assert mended
        assert (await requeue(post.mill.store, post.outbox.queue, Filter(states=("dead",)))).rows == 1
        await post.drain()
        assert [call for call in calls if call[0] == "a"] == [("a", 1), ("a", 1), ("a", 2)]
        assert set(await post.states()) == {"processed"}


def _remember(calls: list[tuple[str, int]]) -> Any:
    async def process(event: rm.outbox.Event) -> None:
        calls.append((event.aggregate_id, event.payload))

    process.__qualname__ = "failing.<locals>.process"
    return process


async def test_a_handler_that_gives_up_is_told_of_at_once(database_url: str) -> None:
    async with post_on(database_url) as post:

        @post.outbox.on("*")
        async def process(event: rm.outbox.Event) -> rm.Outcome | None:
            if event.type == "raises":
                raise rm.PermanentError("never", code="gone")
            if event.type == "settles":
                async with event.settling(rm.Dead("settled_dead", "by its own transaction")):
                    return None
            return rm.Dead("answered", "two\nlines")

        await post.add(("raises", 1), ("answers", 2), ("settles", 3))
        await post.drain()
        told = {fields["event_type"]: fields["last_error"] for fields in post.named("dead_event")}
        assert told == {
            "raises": "gone: never",
            "answers": "answered: two lines",
            "settles": "settled_dead: by its own transaction",
        }
        assert len(post.named("dead_event")) == 3


async def test_the_handler_s_words_can_be_kept_out_of_the_log(database_url: str) -> None:
    async with post_on(database_url, retry=NOW, log_messages=False) as post:
        failing(post, "secret")
        await write(post)
        await post.drain()
        [told] = post.named("dead_event")
        assert told["last_error"] == told["error_code"] == "broken"


async def test_an_event_that_is_buried_by_a_rescue_is_told_of_once(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K3: a crash is an attempt, and the worker that sweeps says what it buried."""
    monkeypatch.setattr(upkeep, "GRACE", 0.0)
    async with post_on(database_url, retry=rm.Retry(attempts=1), lease=1.0) as post:
        failing(post)
        await write(post)
        queue, store = post.outbox.queue, post.mill.store
        async with post.mill.worker():
            await store.claim(queue, queue.step(), 1)
            await post.advance(60)
            keeper = Upkeep(
                store, store.worker, [queue], post.mill.events,
                WorkerSettings(heartbeat=1.0, rescue_every=1.0, rescue_most=100, keep_history=60.0),
            )  # fmt: skip
            for _ in range(3):  # the first only looks: the worker has not signed off
                await keeper.rescue()
        [told] = post.named("dead_event")
        assert (told["event_type"], told["aggregate_id"], told["attempts"]) == ("document.process", "a", 1)
        assert told["last_error"] == told["error_code"] == "lease_expired_max_attempts"
        assert (await post.states())[0] == "dead"


async def test_a_drain_tells_of_what_it_buries(database_url: str) -> None:
    async with post_on(database_url, retry=rm.Retry(attempts=1), lease=1.0) as post:
        failing(post)
        await write(post)
        async with post.mill.worker():
            await post.mill.store.claim(post.outbox.queue, post.outbox.queue.step(), 1)
        await post.advance(60)
        await post.drain()
        assert len(post.named("dead_event")) == 1


async def test_an_outcome_that_was_not_written_is_not_told_of(database_url: str) -> None:
    """The lease was lost: somebody else has the event now, and it is not dead."""
    async with post_on(database_url, retry=rm.Retry(attempts=1)) as post:

        @post.outbox.on("document.process")
        async def process(event: rm.outbox.Event) -> None:
            await post.sql("UPDATE outbox SET lease = 77")
            raise rm.PermanentError("too late", code="late")

        await post.add(("document.process", "a"))
        report = await post.drain()
        assert report.lost == 1
        assert post.named("dead_event") == []
