"""A consumer that is given a message twice acts on it once."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

import rowmill as rm
from rowmill.store.own import schema
from rowmill.store.own.schema import own_tables
from rowmill.testing import QUICK
from tests.outbox.post import Document, Post, post_on


class Undone(Exception):
    pass


async def titles(post: Post) -> list[str]:
    return list(await post.do(lambda c: c.scalars(sa.select(Document.title).order_by(Document.id)).all()))


async def handle(
    post: Post, inbox: rm.outbox.Inbox, message: Any, consumer: str = "billing", fail: bool = False
) -> bool:
    async with AsyncSession(post.mill.store.engine) as session, session.begin():
        async with inbox.once(session, message, consumer=consumer) as first:
            if first:
                session.add(Document(title=f"{consumer} {message}"))
                await session.flush()
                if fail:
                    raise Undone
        return first


async def test_the_second_time_is_not_the_first(database_url: str) -> None:
    async with post_on(database_url) as post:
        inbox = post.mill.inbox()
        assert [await handle(post, inbox, 17) for _ in range(3)] == [True, False, False]
        assert await handle(post, inbox, "17", "shipping")
        assert await titles(post) == ["billing 17", "shipping 17"]


async def test_what_is_rolled_back_was_not_seen(database_url: str) -> None:
    async with post_on(database_url) as post:
        inbox = post.mill.inbox()
        with pytest.raises(Undone):
            await handle(post, inbox, "m", fail=True)
        assert await handle(post, inbox, "m")
        assert await titles(post) == ["billing m"]


async def test_a_failure_that_the_caller_swallows_takes_the_note_along(database_url: str) -> None:
    async with post_on(database_url) as post:
        inbox = post.mill.inbox()
        async with AsyncSession(post.mill.store.engine) as session, session.begin():
            with suppress(Undone):
                async with inbox.once(session, "m", consumer="billing") as first:
                    assert first
                    raise Undone
        assert await handle(post, inbox, "m"), "it was committed without its work: the message is not lost"


async def test_a_transaction_that_the_database_gave_up_says_its_own_error(database_url: str) -> None:
    async with post_on(database_url) as post:
        inbox = post.mill.inbox()

        async def fail() -> None:
            async with (
                AsyncSession(post.mill.store.engine) as session,
                session.begin(),
                inbox.once(session, "m", consumer="billing"),
            ):
                await session.execute(sa.text("INSERT INTO no_such_table VALUES (1)"))

        with pytest.raises(sa.exc.DBAPIError, match="no_such_table"):
            await fail()
        assert await handle(post, inbox, "m")


async def test_two_at_once_with_the_same_message(database_url: str) -> None:
    """The second waits for the first one's end, on PostgreSQL by the unique key, on SQLite by the lock of the file."""
    async with post_on(database_url) as post:
        inbox = post.mill.inbox()
        found = await asyncio.gather(*(handle(post, inbox, "m") for _ in range(8)))
        assert sorted(found) == [False] * 7 + [True]
        assert await titles(post) == ["billing m"]


@pytest.mark.parametrize("kind", ["session", "connection"])
async def test_the_sync_form(database_url: str, kind: str) -> None:
    async with post_on(database_url) as post:
        inbox, found = post.mill.inbox(), []

        def work(connection: sa.Connection) -> None:
            into = Session(connection) if kind == "session" else connection
            with pytest.raises(Undone), inbox.once(into, "m", consumer="billing"):
                raise Undone
            for _ in range(2):
                with inbox.once(into, "m", consumer="billing") as first:
                    found.append(first)

        await post.do(work)
        assert found == [True, False]


async def test_an_async_connection(database_url: str) -> None:
    async with post_on(database_url) as post:
        inbox, found = post.mill.inbox(), []
        for _ in range(2):
            async with (
                post.mill.store.engine.begin() as connection,
                inbox.once(connection, "m", consumer="billing") as first,
            ):
                found.append(first)
        assert found == [True, False]


async def test_a_note_goes_when_its_time_is_over(database_url: str) -> None:
    async with post_on(database_url) as post:
        await handle(post, post.mill.inbox(keep=-1.0), "old")
        await handle(post, post.mill.inbox(), "new")
        own = own_tables(post.mill.store.dialect.name).inbox
        assert await post.mill.inbox().prune() == 1
        assert await post.do(lambda c: c.scalars(sa.select(own.c.message_id)).all()) == ["new"]


async def test_workers_let_old_notes_go_by_themselves(database_url: str) -> None:
    async with post_on(database_url) as post:

        @post.outbox.on("*")
        async def nothing(event: rm.outbox.Event) -> None: ...

        await handle(post, post.mill.inbox(keep=-1.0), "old")
        own, left = own_tables(post.mill.store.dialect.name).inbox, ["old"]
        async with post.mill.worker(settings=QUICK) as worker, asyncio.timeout(30):
            running = asyncio.create_task(worker.run())
            while left:
                left = list(await post.do(lambda c: c.scalars(sa.select(own.c.message_id)).all()))
            worker.stop()
            await running


def seen(*more: Any) -> sa.Table:
    return sa.Table("seen", sa.MetaData(), sa.Column("who", sa.Text), sa.Column("what", sa.Text), *more)


NAMES = rm.outbox.InboxColumns(consumer="who", message_id="what", received_at=None, expires_at=None)


async def test_a_table_of_your_own(database_url: str) -> None:
    async with post_on(database_url) as post:
        table = seen(sa.UniqueConstraint("who", "what"))
        await post.do(lambda connection: table.create(connection))
        inbox = post.mill.inbox(table, columns=NAMES)
        assert [await handle(post, inbox, "m") for _ in range(2)] == [True, False]
        assert await inbox.prune() == 0
        assert await post.do(lambda c: [tuple(row) for row in c.execute(sa.select(table))]) == [("billing", "m")]


def test_a_table_that_lets_a_message_in_twice_is_refused(sqlite_url: str) -> None:
    mill = rm.Mill(sqlite_url)
    with pytest.raises(rm.errors.DeclarationError, match="from being there twice"):
        mill.inbox(seen(sa.Index("one", "who", "what")), columns=NAMES)
    with pytest.raises(rm.errors.DeclarationError, match="names column consumer, which table seen does not have"):
        mill.inbox(seen(), columns=rm.outbox.InboxColumns(message_id="what"))
    mill.inbox(seen(sa.Index("one", "who", "what", unique=True)), columns=NAMES)


async def test_a_database_of_the_version_before_gets_the_table(database_url: str) -> None:
    async with post_on(database_url) as post:
        own = own_tables(post.mill.store.dialect.name)

        def set_back(connection: sa.Connection) -> None:
            own.metadata.drop_all(connection)
            schema.MIGRATIONS[1](connection)
            connection.execute(own.meta.insert().values(version=1))

        await post.do(set_back)
        with pytest.raises(rm.errors.SchemaMismatch, match="are at version 1, this code needs"):
            await post.drain()
        assert await post.mill.migrate() == list(range(2, schema.VERSION + 1))
        assert await post.mill.migrate() == []
        assert await handle(post, post.mill.inbox(), "m")
