"""An event and the change that it tells of are one transaction, whoever holds it."""

import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, scoped_session, sessionmaker

import rowmill as rm
from tests.outbox.post import Document, Post, post_on


class Undone(Exception):
    pass


async def kept(post: Post) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The documents, and the events, that are there."""
    titles = await post.do(lambda connection: list(connection.scalars(sa.select(Document.title).order_by(Document.id))))
    return titles, [(row.event_type, row.aggregate_id, row.payload) for row in await post.rows()]


EXPECTED = (["kept"], [("document.process", "1", {"n": 1}), ("document.process", "1", {"n": 2})])


async def test_in_an_async_session(database_url: str) -> None:
    """K1: both, or none."""
    async with post_on(database_url) as post:
        for title in ("undone", "kept"):
            try:
                async with AsyncSession(post.mill.store.engine) as session, session.begin():
                    document = Document(title=title)
                    session.add(document)
                    await session.flush()
                    for n in (1, 2):
                        post.outbox.add(session, "document.process", aggregate_id=document.id, payload={"n": n})
                    if title == "undone":
                        raise Undone
            except Undone:
                assert await kept(post) == ([], [])
        titles, events = await kept(post)
        assert (titles, [payload for _, _, payload in events]) == (["kept"], [{"n": 1}, {"n": 2}])


async def test_in_an_async_scoped_session(database_url: str) -> None:
    async with post_on(database_url) as post:
        sessions = async_scoped_session(async_sessionmaker(post.mill.store.engine), scopefunc=lambda: 1)
        post.outbox.add(sessions, "document.process", aggregate_id="a")
        await sessions.commit()
        await sessions.remove()
        assert (await post.row()).payload == {}


async def test_in_a_sync_session(database_url: str) -> None:
    async with post_on(database_url) as post:

        def work(connection: sa.Connection) -> None:
            for title in ("undone", "kept"):
                with Session(connection, join_transaction_mode="create_savepoint") as session:
                    session.add(Document(id=1, title=title))
                    for n in (1, 2):
                        post.outbox.add(session, "document.process", aggregate_id=1, payload={"n": n})
                    session.flush()
                    session.rollback() if title == "undone" else session.commit()

        await post.do(work)
        assert await kept(post) == EXPECTED


async def test_in_a_scoped_session(database_url: str) -> None:
    async with post_on(database_url) as post:

        def work(connection: sa.Connection) -> None:
            sessions = scoped_session(sessionmaker(connection))
            post.outbox.add(sessions, "document.process", aggregate_id=1)
            sessions.flush()

        await post.do(work)
        assert (await post.row()).aggregate_id == "1"


async def test_on_a_connection(database_url: str) -> None:
    async with post_on(database_url) as post:

        def work(connection: sa.Connection) -> None:
            for title in ("undone", "kept"):
                with connection.begin_nested() as part:
                    connection.execute(sa.insert(Document).values(id=1, title=title))
                    for n in (1, 2):
                        post.outbox.add(connection, "document.process", aggregate_id=1, payload={"n": n})
                    if title == "undone":
                        part.rollback()

        await post.do(work)
        assert await kept(post) == EXPECTED


async def test_on_an_async_connection(database_url: str) -> None:
    async with post_on(database_url) as post:
        for title in ("undone", "kept"):
            async with post.mill.store.engine.connect() as connection:
                await connection.execute(sa.insert(Document).values(id=1, title=title))
                for n in (1, 2):
                    await post.outbox.add(connection, "document.process", aggregate_id=1, payload={"n": n})
                await (connection.rollback() if title == "undone" else connection.commit())
        assert await kept(post) == EXPECTED


async def test_by_a_plain_insert_of_somebody_who_does_not_know_rowmill(database_url: str) -> None:
    """K1: the statement of the guide."""
    async with post_on(database_url) as post:
        seen = []

        @post.outbox.on("document.process")
        async def process(event: rm.outbox.Event) -> None:
            seen.append((event.aggregate_id, event.payload))

        await post.sql(
            "INSERT INTO outbox (event_type, aggregate_id, payload) VALUES ('document.process', '17', '{\"n\": 1}')"
        )
        await post.drain()
        assert seen == [("17", {"n": 1})]


async def test_to_something_else_is_refused_with_the_way_out(database_url: str) -> None:
    async with post_on(database_url) as post:
        with pytest.raises(TypeError, match="With another driver, INSERT it"):
            post.outbox.add(post.mill.store.engine, "x", aggregate_id=1)  # type: ignore[call-overload]


async def test_many_events_of_one_flush_keep_their_order(database_url: str) -> None:
    async with post_on(database_url) as post:
        async with AsyncSession(post.mill.store.engine) as session, session.begin():
            for n in range(2500):
                post.outbox.add(session, "document.process", aggregate_id="a", payload={"n": n})
        assert [row.payload["n"] for row in await post.rows()] == list(range(2500))


class Base(DeclarativeBase): ...


class Event(rm.outbox.OutboxMixin, Base):
    __tablename__ = "events"

    tenant: Mapped[str | None]


async def test_an_orm_class_with_the_mixin_and_columns_of_its_own(database_url: str) -> None:
    async with post_on(database_url, Event) as post:
        tenants = []

        @post.outbox.on("*")
        async def handle(event: rm.outbox.Event) -> None:
            tenants.append(event.lease.row.tenant)

        async with AsyncSession(post.mill.store.engine) as session, session.begin():
            post.outbox.add(session, "document.process", aggregate_id=7, tenant="acme")
            session.add(Event(event_type="document.process", aggregate_id="7", tenant="by hand"))
        await post.drain()
        assert tenants == ["acme", "by hand"]
        assert await post.states() == ["processed", "processed"]


def hand_made(metadata: sa.MetaData) -> sa.Table:
    """An outbox that was there before: other names, uuids, no defaults, numbers for states."""
    moment = sa.DateTime(timezone=True)
    return sa.Table(
        "messages", metadata,
        sa.Column("uid", sa.Uuid, primary_key=True, default=uuid.uuid4),
        sa.Column("kind", sa.String(80), nullable=False),
        sa.Column("entity", sa.Integer),
        sa.Column("body", sa.JSON, nullable=False),
        sa.Column("written_at", moment, nullable=False, default=lambda: datetime.now(UTC)),
        sa.Column("sent_at", moment),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("problem", sa.String(200)),
        sa.Column("status", sa.SmallInteger, nullable=False),
        sa.Column("next_try_at", moment, nullable=False),
        sa.Column("lease", sa.BigInteger),
        sa.Column("leased_until", moment),
    )  # fmt: skip


NAMES = rm.outbox.OutboxColumns(
    state="status", attempts="tries", available_at="next_try_at", error="problem", finished_at="sent_at",
    created_at="written_at", event_type="kind", aggregate_id="entity", payload="body",
)  # fmt: skip
CODES = rm.States(ready=0, running=1, done=2, dead=3)


async def test_an_outbox_that_is_already_there_by_its_own_names(database_url: str) -> None:
    async with post_on(database_url, hand_made(sa.MetaData()), columns=NAMES, states=CODES) as post:
        seen = []

        @post.outbox.on("document.process")
        async def process(event: rm.outbox.Event) -> None:
            assert event.created_at is not None
            seen.append((event.aggregate_id, event.payload))

        async with AsyncSession(post.mill.store.engine) as session, session.begin():
            for n in range(3):
                post.outbox.add(session, "document.process", aggregate_id=5, payload={"n": n})
        await post.add(("document.process", 6), payload=[])
        await post.drain()
        assert sorted(seen, key=lambda one: one[0]) == [(5, {"n": 0}), (5, {"n": 1}), (5, {"n": 2}), (6, [])]


def test_a_key_that_is_no_order_needs_columns_that_are(tmp_path: Any) -> None:
    mill, columns = rm.Mill(f"sqlite:///{tmp_path}/x.db"), hand_made(sa.MetaData())
    columns.columns["written_at"].nullable = True
    with pytest.raises(rm.errors.DeclarationError, match="which event of an aggregate came first"):
        mill.outbox(columns, columns=NAMES, states=CODES)
    with pytest.raises(rm.errors.DeclarationError, match="names column kund"):
        mill.outbox(columns, columns=rm.outbox.OutboxColumns(event_type="kund"), by=("written_at",))
    with pytest.raises(rm.errors.DeclarationError, match="are OutboxColumns"):
        mill.outbox(columns, columns=rm.Columns())  # type: ignore[arg-type]
    with pytest.raises(rm.errors.DeclarationError, match="concurrency must be 1 or more"):
        mill.outbox(concurrency=0)
    assert not mill.queues
