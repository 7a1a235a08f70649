"""A real NATS server: confirmed, known again, and killed in the middle."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.js.api import StreamConfig

import rowmill as rm
from rowmill.outbox.nats import NatsPublisher
from rowmill.testing import QUICK
from tests.outbox.post import Post, post_on
from tests.support.nats import NatsServer

NOW = rm.Retry(attempts=5, backoff=rm.fixed(0))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    server = NatsServer(tmp_path).start()
    try:
        yield server
    finally:
        server.kill()


@asynccontextmanager
async def jetstream(server: NatsServer) -> AsyncIterator[Any]:
    connection = await nats.connect(server.url)
    try:
        yield connection.jetstream()
    finally:
        await connection.close()


async def make_stream(server: NatsServer) -> None:
    async with jetstream(server) as js:
        await js.add_stream(StreamConfig(name="EVENTS", subjects=["events.>"], duplicate_window=120))


async def stored(server: NatsServer) -> list[Any]:
    """Every message of the stream, in its order."""
    async with jetstream(server) as js:
        count = (await js.stream_info("EVENTS")).state.messages
        return [await js.get_msg("EVENTS", seq=n) for n in range(1, count + 1)]


def relay(post: Post, server: NatsServer, **options: Any) -> NatsPublisher:
    publisher = NatsPublisher(server.url, timeout=2.0, **options)
    post.outbox.relay(publisher, subject="events.{type}")
    return publisher


async def test_a_confirmed_event_is_in_the_stream_with_its_headers(database_url: str, server: NatsServer) -> None:
    await make_stream(server)
    async with post_on(database_url) as post:
        relay(post, server)
        await post.add(("document.process", "Größe\n1"), payload={"n": 1})
        report = await post.drain()
        assert report.done == 1
        [message], row = await stored(server), await post.row()
        assert (message.subject, message.data) == ("events.document.process", b'{"n":1}')
        assert message.headers["Nats-Msg-Id"] == f"outbox:{row.id}"
        assert (message.headers["ce-id"], message.headers["ce-type"]) == (str(row.id), "document.process")
        assert message.headers["ce-subject"] == "Gr%C3%B6%C3%9Fe%0A1"
        assert message.headers["content-type"] == "application/json"


async def test_an_event_that_is_published_again_is_known_again(database_url: str, server: NatsServer) -> None:
    await make_stream(server)
    async with post_on(database_url) as post:
        relay(post, server)
        await post.add(("document.process", 1))
        await post.drain()
        await post.sql("UPDATE outbox SET state = 'pending', processed_at = NULL")
        assert (await post.drain()).done == 1
        assert len(await stored(server)) == 1


async def test_a_subject_that_no_stream_takes_is_tried_again_and_dies(sqlite_url: str, server: NatsServer) -> None:
    async with post_on(sqlite_url, retry=NOW) as post:
        relay(post, server)
        await post.add(("document.process", 1))
        await post.drain()
        row = await post.row()
        assert (row.state, row.attempts, row.last_error) == ("dead", 5, "no_stream: no stream takes this subject")


async def test_what_can_never_be_taken_is_dead_at_once(sqlite_url: str, server: NatsServer) -> None:
    await make_stream(server)
    async with post_on(sqlite_url) as post:
        relay(post, server)
        await post.add(("document.process", 1), payload="x" * 2_000_000)
        await post.add(("two words", 2), ("two\r\nPUB lines", 3), ("every.*", 4), ("a..b", 5))
        await post.drain()
        codes = [(row.state, row.attempts, row.last_error.partition(":")[0]) for row in await post.rows()]
        assert codes == [("dead", 1, "too_large"), *[("dead", 1, "bad_subject")] * 4]


async def test_a_stream_of_another_name_refuses(sqlite_url: str, server: NatsServer) -> None:
    await make_stream(server)
    async with post_on(sqlite_url, retry=rm.Retry(attempts=1)) as post:
        relay(post, server, stream="OTHERS")
        await post.add(("document.process", 1))
        await post.drain()
        assert (await post.row()).last_error.startswith("refused: the stream refuses it: error 10060")


async def test_a_publisher_can_be_used_from_one_loop_after_another(tmp_path: Path, server: NatsServer) -> None:
    await make_stream(server)
    publisher = NatsPublisher(server.url)
    message = rm.outbox.Message("events.x", None, "a:1", b"{}", {})
    for _ in range(2):
        await asyncio.to_thread(asyncio.run, publisher.publish(message))
    await publisher.publish(message)
    await publisher.close()
    await publisher.close()
    assert len(await stored(server)) == 1


async def test_nothing_is_lost_or_doubled_when_the_server_is_killed_in_the_middle(
    database_url: str, server: NatsServer
) -> None:
    aggregates, each = 20, 10
    await make_stream(server)
    async with post_on(database_url, concurrency=10) as post:
        publisher = relay(post, server)
        for n in range(each):
            await post.add(*(("document.process", f"a{a}") for a in range(aggregates)), payload=n)
        done, fallen = asyncio.Event(), asyncio.Event()
        counts: Counter[str] = Counter()

        def watch(event: str, fields: Any) -> None:
            if event == "settled":
                counts[fields["move"]] += 1
                if counts["done"] == 50 and not fallen.is_set():
                    server.kill()
                if counts["park"] >= 10:
                    fallen.set()
                if counts["done"] == aggregates * each:
                    done.set()

        post.mill.observe(watch)
        async with post.mill.worker(settings=QUICK) as worker, asyncio.timeout(90):
            running = asyncio.create_task(worker.run())
            await fallen.wait()
            assert {row.attempts for row in await post.rows() if row.state == "waiting"} == {0}, "at no cost"
            server.start()
            while not done.is_set():
                await post.advance(60)
                await asyncio.wait([asyncio.ensure_future(done.wait())], timeout=0.2)
            worker.stop()
            await running
        assert set(await post.states()) == {"processed"}
        await publisher.close()
        rows = {str(row.id): (row.aggregate_id, row.payload) for row in await post.rows()}
        messages = [message.headers["ce-id"] for message in await stored(server)]
        assert Counter(messages) == Counter(dict.fromkeys(rows, 1)), "each once"
        by_aggregate: defaultdict[str, list[int]] = defaultdict(list)
        for key in messages:
            by_aggregate[rows[key][0]].append(rows[key][1])
        assert all(numbers == list(range(each)) for numbers in by_aggregate.values())
