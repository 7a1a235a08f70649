"""Workers agree on the words of a table and on the version of Rowmill's own tables, or do not start."""

import enum
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import Column

from rowmill import Lease, Mill, Queue, Stage, States
from rowmill.errors import DeclarationError, SchemaMismatch
from rowmill.store.clock import moment
from rowmill.store.own import schema
from rowmill.store.own.schema import own_tables
from tests.conformance.fleet import Declare, Member, jobs, worker


def with_states(states: States, **options: Any) -> Declare:
    def declare(mill: Mill) -> Queue[Any]:
        queue = mill.queue(jobs(), states=states, **options)

        @queue.handler(stage=queue.steps[0].name)
        async def work(lease: Lease[Any]) -> None:
            pass

        return queue

    return declare


async def beside(member: Member, declare: Declare) -> None:
    """Another mill starts a worker on the same database while this one's is alive."""
    async with member.mill.worker():
        other = Mill(member.mill.url.render_as_string(hide_password=False))
        declare(other)
        async with other.worker():
            pass


async def test_a_living_worker_with_other_words_is_a_reason_not_to_start(database_url: str) -> None:
    async with worker(database_url, with_states(States())) as member:
        with pytest.raises(DeclarationError, match="with other words") as caught:
            await beside(member, with_states(States(ready="queued")))
        message = str(caught.value)
        assert "queued" in message
        assert "Use the same words in both, or stop that worker first" in message


async def test_one_that_has_the_same_words_is_none(database_url: str) -> None:
    async with worker(database_url, with_states(States())) as member:
        await beside(member, with_states(States()))


async def test_other_stages_are_other_words(database_url: str) -> None:
    async with worker(database_url, with_states(States())) as member:
        stages = [Stage("work", "ready", "running"), Stage("more", "ready 2", "running 2")]
        with pytest.raises(DeclarationError):
            await beside(member, with_states(States(), stages=stages))


async def test_the_same_table_under_another_queue_s_name_is_the_same_table(database_url: str) -> None:
    async with worker(database_url, with_states(States())) as member:
        with pytest.raises(DeclarationError):
            await beside(member, with_states(States(done="finished"), name="another"))


class State(enum.Enum):
    READY = "ready"
    RUNNING = "running"
    DONE = "done"
    DEAD = "dead"


async def test_words_as_text_and_as_members_of_an_enum_are_the_same(database_url: str) -> None:
    """What counts is what stands in the table."""
    members = States(ready=State.READY, running=State.RUNNING, done=State.DONE, dead=State.DEAD)
    async with worker(database_url, with_states(States())) as member:
        await beside(member, with_states(members))


async def test_a_schema_that_is_written_out_is_the_same_table(database_url: str) -> None:
    """`public.jobs` on PostgreSQL, any schema on SQLite, where there are none."""

    def declare(mill: Mill) -> Queue[Any]:
        queue = mill.queue(jobs(schema="public"), states=States(ready="queued"))
        queue.handler()(nothing)
        return queue

    async with worker(database_url, with_states(States())) as member:
        with pytest.raises(DeclarationError):
            await beside(member, declare)


async def test_one_that_came_and_went_does_not_hide_one_that_lives(database_url: str) -> None:
    async with worker(database_url, with_states(States())) as member, member.mill.worker():
        passing = Mill(database_url)
        with_states(States())(passing)
        async with passing.worker():
            pass
        other = Mill(database_url)
        with_states(States(ready="queued"))(other)
        with pytest.raises(DeclarationError, match="with other words"):
            await other.drain()


async def nothing(lease: Lease[Any]) -> None:
    pass


async def test_a_worker_that_stopped_or_died_does_not_count(database_url: str) -> None:
    async with worker(database_url, with_states(States())) as member:
        async with member.mill.worker():
            own = own_tables(member.store.dialect.name).worker
            long_ago = moment(member.store.dialect.name, -60.0)
            await member.mill.run(lambda c: c.execute(sa.update(own).values(seen_at=long_ago)).close())
            other = Mill(database_url)
            with_states(States(ready="queued"))(other)
            async with other.worker():
                pass
        third = Mill(database_url)
        with_states(States(ready="waiting"))(third)
        async with third.worker():
            pass


@pytest.mark.empty_database
async def test_a_database_without_our_tables_is_refused(database_url: str) -> None:
    mill = Mill(database_url)
    with_states(States())(mill)
    with pytest.raises(SchemaMismatch, match=r"no tables of Rowmill's yet\. Run: rowmill migrate"):
        await mill.drain()


def say_version(connection: sa.Connection, version: int) -> None:
    meta = own_tables(connection.dialect.name).meta
    connection.execute(sa.delete(meta))
    connection.execute(sa.insert(meta).values(version=version))


@pytest.mark.parametrize(("version", "advice"), [(0, "Run: rowmill migrate"), (99, "Install a newer rowmill")])
async def test_a_database_of_another_version_is_refused(database_url: str, version: int, advice: str) -> None:
    async with worker(database_url, with_states(States())) as member:
        await member.put({})
        await member.mill.run(lambda connection: say_version(connection, version))
        with pytest.raises(SchemaMismatch, match=advice):
            await member.mill.drain()
        assert (await member.row()).state == "ready"
        assert len(await member.own("worker")) == 1


async def test_a_newer_database_is_not_migrated_back(database_url: str) -> None:
    async with worker(database_url, with_states(States())) as member:
        await member.mill.run(lambda connection: say_version(connection, 99))
        with pytest.raises(SchemaMismatch):
            await member.mill.migrate()


async def test_migrating_twice_does_nothing(database_url: str) -> None:
    async with worker(database_url, with_states(States())) as member:
        assert await member.mill.migrate() == []
        assert await member.mill.run(schema.version_of) == schema.VERSION


@pytest.mark.empty_database
async def test_two_that_migrate_at_once(database_url: str) -> None:
    import asyncio

    def declare(mill: Mill) -> Mill:
        mill.queue(jobs(Column("rank", sa.Integer)))
        return mill

    steps = await asyncio.gather(*(declare(Mill(database_url)).migrate(tables=True) for _ in range(3)))
    assert sorted(steps) == [[], [], list(schema.MIGRATIONS)]
