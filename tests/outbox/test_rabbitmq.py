"""A real RabbitMQ, where one is installed: confirmed, mandatory, and killed in the middle."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aio_pika
import pytest

import rowmill as rm
from rowmill.outbox.rabbitmq import RabbitPublisher
from tests.outbox.post import post_on
from tests.support.rabbit import PROGRAM, RabbitServer, installed

pytestmark = [
    pytest.mark.skipif(not installed(), reason=f"there is no {PROGRAM} (and epmd) on the PATH"),
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("rabbitmq"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitServer]:
    folder: Path = tmp_path_factory.mktemp("rabbit")
    server = RabbitServer(folder)
    try:
        yield server.start()
    finally:
        server.kill()


@asynccontextmanager
async def channel(server: RabbitServer) -> AsyncIterator[Any]:
    async with await aio_pika.connect(server.url) as connection:
        yield await connection.channel()


async def taken(server: RabbitServer, queue: str) -> list[Any]:
    """Every message of a queue, in its order."""
    found = []
    async with channel(server) as open_channel:
        declared = await open_channel.declare_queue(queue, durable=True)
        while message := await declared.get(no_ack=True, fail=False):
            found.append(message)
    return found


async def test_a_confirmed_event_is_in_the_queue_with_its_headers(sqlite_url: str, server: RabbitServer) -> None:
    async with channel(server) as open_channel:
        exchange = await open_channel.declare_exchange("events", "topic", durable=True)
        queue = await open_channel.declare_queue("documents", durable=True)
        await queue.bind(exchange, "document.*")
    async with post_on(sqlite_url) as post:
        post.outbox.relay(RabbitPublisher(server.url, exchange="events"))
        await post.add(("document.process", 17), ("document.process", 17), payload={"n": 1})
        assert (await post.drain()).done == 2
        first, second = await taken(server, "documents")
        row = (await post.rows())[0]
        assert (first.body, first.content_type, first.message_id) == (
            b'{"n":1}',
            "application/json",
            f"outbox:{row.id}",
        )
        assert first.delivery_mode == aio_pika.DeliveryMode.PERSISTENT
        assert first.headers["cloudEvents:id"] == str(row.id)
        assert first.headers["cloudEvents:subject"] == "17"
        assert first.headers["x-deduplication-header"] == first.message_id
        assert second.message_id != first.message_id


async def test_an_event_that_no_queue_takes_has_failed(sqlite_url: str, server: RabbitServer) -> None:
    async with post_on(sqlite_url, retry=rm.Retry(attempts=1)) as post:
        post.outbox.relay(RabbitPublisher(server.url), types=["nowhere"])
        post.outbox.relay(RabbitPublisher(server.url, exchange="missing"), types=["missing"])
        await post.add(("nowhere", 1), ("missing", 2))
        await post.drain()
        codes = [row.last_error.partition(":")[0] for row in await post.rows()]
        assert codes == ["unroutable", "no_exchange"]


async def test_nothing_is_lost_when_the_broker_is_killed_in_the_middle(sqlite_url: str, server: RabbitServer) -> None:
    async with channel(server) as open_channel:
        await open_channel.declare_queue("kept", durable=True)
    async with post_on(sqlite_url) as post:
        post.outbox.relay(RabbitPublisher(server.url, timeout=5.0), types=["kept"])
        await post.add(*(("kept", n) for n in range(5)))
        assert (await post.drain()).done == 5
        server.kill()
        await post.add(*(("kept", n) for n in range(5)))
        await post.drain()
        rows = await post.rows()
        assert [(row.state, row.attempts) for row in rows[5:]] == [("waiting", 0)] * 5
        server.start()
        async with asyncio.timeout(60):
            while set(await post.states()) != {"processed"}:
                await post.advance(60)
                await post.drain()
        seen = [message.message_id for message in await taken(server, "kept")]
        assert set(seen) == {f"outbox:{row.id}" for row in rows}
