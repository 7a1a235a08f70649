"""Events on their way to a broker: what a message says, and what happens while the broker is away."""

import asyncio
from datetime import datetime
from typing import Any

import pytest

import rowmill as rm
from rowmill.outbox.connection import BrokerConnection
from rowmill.outbox.message import body_of
from rowmill.outbox.relay import BrokerPause
from tests.outbox.post import post_on


class Letters:
    """A publisher of our own, for what no broker has a part in. The real ones have tests of theirs."""

    def __init__(self) -> None:
        self.taken: list[rm.outbox.Message] = []
        self.closed = 0
        self.error: Exception | None = None

    async def publish(self, message: rm.outbox.Message) -> None:
        if self.error is not None:
            raise self.error
        self.taken.append(message)

    async def close(self) -> None:
        self.closed += 1


async def test_a_message_says_what_the_event_says(database_url: str) -> None:
    async with post_on(database_url, source="shop") as post:
        letters = Letters()
        post.outbox.relay(letters, subject="events.{type}")
        await post.add(("document.process", 17), payload={"title": "Grüße"})
        await post.drain()
        [message], row = letters.taken, await post.row()
        assert (message.subject, message.key, message.id) == ("events.document.process", "17", f"shop:{row.id}")
        assert message.body == '{"title":"Grüße"}'.encode()
        assert message.content_type == "application/json"
        given = dict(message.attributes)
        assert datetime.fromisoformat(given.pop("time")).tzinfo is not None
        assert given == {
            "specversion": "1.0", "id": str(row.id), "source": "shop", "type": "document.process", "subject": "17",
        }  # fmt: skip
        assert row.state == "processed"


async def test_handlers_go_before_the_relay_of_the_rest(database_url: str) -> None:
    async with post_on(database_url) as post:
        letters, seen = Letters(), []
        post.outbox.relay(letters, types=["document.*"], subject=lambda event: f"{event.type}.{event.aggregate_id}")

        @post.outbox.on("document.delete")
        async def delete(event: rm.outbox.Event) -> None:
            seen.append(event.type)

        await post.add(("document.process", 1), ("document.delete", 2), ("kb.delete", 3))
        await post.drain()
        assert [message.subject for message in letters.taken] == ["document.process.1"]
        assert seen == ["document.delete"]
        assert await post.states() == ["processed", "processed", "waiting"]
        assert letters.closed == 1


async def test_a_broker_that_is_away_costs_no_attempt_and_holds_up_nobody_else(database_url: str) -> None:
    async with post_on(database_url) as post:
        letters, seen = Letters(), []
        letters.error = rm.errors.ProviderDown("away")
        post.outbox.relay(letters, types=["far.*"])

        @post.outbox.on("near")
        async def near(event: rm.outbox.Event) -> None:
            seen.append(event.aggregate_id)

        await post.add(*(("far.away", f"far {n}") for n in range(10)), *(("near", n) for n in range(10)))
        await post.drain()
        assert sorted(seen) == sorted(str(n) for n in range(10))
        far = [row for row in await post.rows() if row.event_type == "far.away"]
        assert {(row.state, row.attempts) for row in far} == {("waiting", 0)}
        assert {row.last_error.partition(":")[0] for row in far} == {"provider_down"}


async def test_two_relays_for_the_same_types_are_refused(sqlite_url: str) -> None:
    async with post_on(sqlite_url) as post:
        post.outbox.relay(Letters(), types=["document.*"])
        with pytest.raises(rm.errors.DeclarationError, match="have a handler already"):
            post.outbox.relay(Letters(), types=["document.*"])


@pytest.mark.parametrize(
    ("payload", "body"), [({"a": 1}, b'{"a":1}'), ('{"a":1}', b'{"a":1}'), (b"\x00", b"\x00"), (None, b"null")]
)
def test_a_payload_that_is_text_already_stays_as_it_is(payload: Any, body: bytes) -> None:
    assert body_of(payload) == body


def test_a_gate_is_closed_for_longer_each_time_and_no_longer_for_many_at_once() -> None:
    now = 100.0
    gate = BrokerPause(lambda: now, lambda: 0.0)

    def wait() -> float:
        with pytest.raises(rm.errors.ProviderDown) as caught:
            gate.check()
        return caught.value.retry_after

    gate.check()
    waits = []
    for _ in range(8):
        for _ in range(5):
            gate.away(rm.errors.ProviderDown("away"))
        waits.append(wait())
        now += waits[-1]
        gate.check()
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    gate.passed()
    assert gate.away(rm.errors.ProviderDown("away")).retry_after == 1


def test_events_that_wait_for_a_gate_do_not_come_all_at_once() -> None:
    chances = iter([0.0, 0.5, 1.0])
    gate = BrokerPause(lambda: 0.0, lambda: next(chances))
    gate._closed_until = 0.0
    assert gate.away(rm.errors.ProviderDown("away")).retry_after == 1.0
    assert [gate.away(rm.errors.ProviderDown("away")).retry_after for _ in range(2)] == [1.5, 2.0]


async def test_those_who_wait_for_a_connection_fail_together() -> None:
    """Ten slots in front of a broker that does not answer: one time-out, not ten."""
    tried, answer = 0, asyncio.Event()

    async def connect() -> object:
        nonlocal tried
        tried += 1
        await answer.wait()
        if tried == 1:
            raise OSError("away")
        return object()

    async def close(connection: object) -> None: ...

    connected = BrokerConnection(connect, close)
    waiting = [asyncio.create_task(connected.get()) for _ in range(10)]
    await asyncio.sleep(0)
    answer.set()
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(one) for one in found] == [OSError] * 10
    assert tried == 1
    first = await connected.get()
    assert await connected.get() is first
    await connected.drop(object())
    assert await connected.get() is first
    await connected.close()
    assert await connected.get() is not first
