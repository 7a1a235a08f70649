"""Kafka's mock cluster, in this process: confirmed by all, keyed by aggregate, in order."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError

import rowmill as rm
from rowmill.outbox.kafka import _SILENT, KafkaPublisher, translate_error
from tests.outbox.post import post_on


@pytest.fixture
def servers() -> Iterator[str]:
    """A cluster of three brokers, which lives as long as the client that made it."""
    host = confluent_kafka.Producer({"bootstrap.servers": "none", "test.mock.num.brokers": "3"}, logger=_SILENT)
    brokers = host.list_topics(timeout=30).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    host.flush(0)


def taken(servers: str, topic: str, count: int) -> list[Any]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": "test", "auto.offset.reset": "earliest"}, logger=_SILENT
    )
    try:
        consumer.subscribe([topic])
        found: list[Any] = []
        while len(found) < count:
            message = consumer.poll(30)
            assert message is not None, "no more messages came"
            assert message.error() is None
            found.append(message)
        return found
    finally:
        consumer.close()


async def test_events_of_an_aggregate_are_in_one_partition_in_order(database_url: str, servers: str) -> None:
    async with post_on(database_url) as post:
        post.outbox.relay(KafkaPublisher(servers), subject="documents")
        for n in range(5):
            await post.add(*(("document.process", f"a{a}") for a in range(8)), payload=n)
        assert (await post.drain()).done == 40
        messages = taken(servers, "documents", 40)
        numbers: defaultdict[str, list[bytes]] = defaultdict(list)
        partitions: defaultdict[str, set[int]] = defaultdict(set)
        for message in messages:
            key = message.key().decode()
            numbers[key].append(message.value())
            partitions[key].add(message.partition())
        assert dict(numbers) == {f"a{a}": [b"0", b"1", b"2", b"3", b"4"] for a in range(8)}
        assert all(len(found) == 1 for found in partitions.values())
        assert len(set.union(*partitions.values())) > 1
        headers = dict(messages[0].headers())
        assert headers["ce_type"] == b"document.process"
        assert headers["content-type"] == b"application/json"
        assert {dict(message.headers())["ce_id"] for message in messages} == {
            str(row.id).encode() for row in await post.rows()
        }


async def test_a_cluster_that_is_away_costs_no_attempt(sqlite_url: str) -> None:
    async with post_on(sqlite_url) as post:
        post.outbox.relay(KafkaPublisher("127.0.0.1:1", timeout=1.0), subject="documents")
        await post.add(("document.process", 1))
        await post.drain()
        row = await post.row()
        assert (row.state, row.attempts, row.last_error) == (
            "waiting", 0, "provider_down: Kafka does not answer: TimeoutError",
        )  # fmt: skip


async def test_a_message_that_is_too_large_is_dead_at_once(sqlite_url: str, servers: str) -> None:
    async with post_on(sqlite_url) as post:
        post.outbox.relay(KafkaPublisher(servers, message_max_bytes=5000), subject="documents")
        await post.add(("document.process", 1), payload="x" * 10_000)
        await post.drain()
        row = await post.row()
        assert (row.state, row.last_error.partition(":")[0]) == ("dead", "too_large")


@pytest.mark.parametrize(
    ("code", "kind", "named"),
    [
        (KafkaError._MSG_TIMED_OUT, rm.errors.ProviderDown, "provider_down"),
        (KafkaError._ALL_BROKERS_DOWN, rm.errors.ProviderDown, "provider_down"),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, rm.TransientError, "no_topic"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, rm.TransientError, "refused"),
        (KafkaError.MSG_SIZE_TOO_LARGE, rm.PermanentError, "too_large"),
    ],
)
def test_what_a_delivery_report_says_is_judged_by_its_code(
    code: int, kind: type[rm.errors.WorkError], named: str
) -> None:
    found = translate_error(KafkaError, KafkaError(code))
    assert (type(found), found.code) == (kind, named)
