"""Rows live through the whole engine under hostile names, words and values, and nothing else is touched."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy import Column

from rowmill import CrashCodes, Dead, Done, Lease, Mill, PermanentError, States, TransientError
from rowmill.errors import DeclarationError
from rowmill.operator import activity, browse, change, counts
from rowmill.operator.filters import Filter
from rowmill.operator.why import why
from rowmill.store.own import fleet
from rowmill.store.rescue import Rescued
from tests.conformance.fleet import Member, jobs, worker
from tests.security.hostile import BAD, bad_queue, bad_row, named

each_bad = pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())


@asynccontextmanager
async def bad_worker(url: str, bad: str, *, in_order: bool = False) -> AsyncIterator[Member]:
    """A worker on the hostile table, with a bystander beside it that must be there at the end."""
    async with worker(url, lambda mill: bad_queue(mill, bad, in_order=in_order)) as member:
        await member.sql("CREATE TABLE bystander (id integer)")
        heard: list[str] = []
        member.mill.observe(lambda event, fields: heard.append(event))
        yield member
        assert {"wakeup_unavailable", "stuck", "maintenance_failed", "unrescued"}.isdisjoint(heard)
        assert await member.read(sa.select(sa.func.count()).select_from(sa.text("bystander"))) == [(0,)]


async def values_of(member: Member, column: str) -> list[Any]:
    table = member.queue.table
    rows = await member.read(sa.select(table.columns[column]).order_by(*table.primary_key))
    return [row[0] for row in rows]


@each_bad
async def test_a_row_goes_through_its_stages_and_fails_and_dies(database_url: str, bad: str) -> None:
    async with bad_worker(database_url, bad) as member:
        queue, names = member.queue, named(bad)

        @queue.handler(stage=f"one{bad}")
        async def one(lease: Lease[Any]) -> Any:
            assert lease.row[f"j{bad}"] == {bad: [bad, {"'": '"'}]}
            if lease.row[f"o{bad}"] == 1:
                raise TransientError(bad, code=bad)
            return {f"v{bad}": f"result {bad}", f"j{bad}": {"answer": bad}}

        @queue.handler(stage=f"two{bad}")
        async def two(lease: Lease[Any]) -> Any:
            if lease.row[f"o{bad}"] == 2:
                raise PermanentError(bad, code=bad)
            async with lease.settling(Done({f"v{bad}": f"settled {bad}"})) as session:
                await session.execute(sa.select(queue.table))

        await member.put(bad_row(bad, 0), bad_row(bad, 1))
        await queue.load([bad_row(bad, 2)])
        await member.bench.drain()

        assert await values_of(member, names["state"]) == [f"done{bad}", f"waiting{bad}", f"dead{bad}"]
        assert await values_of(member, f"v{bad}") == [f"settled {bad}", f"{bad} 1", f"result {bad}"]
        assert await values_of(member, names["error"]) == [None, f"{bad}: {bad}", f"{bad}: {bad}"]
        assert await values_of(member, names["error_code"]) == [None, bad, bad]
        history = [(row.queue, row.key, row.stage, row.code, row.message) for row in await member.own("attempt")]
        assert sorted(history) == sorted(
            [(f"q{bad}", f"{bad}1", f"one{bad}", bad, bad), (f"q{bad}", f"{bad}2", f"two{bad}", bad, bad)]
        )


@each_bad
async def test_a_sync_handler_settles_in_its_own_transaction(database_url: str, bad: str) -> None:
    """On PostgreSQL by another driver, whose placeholders look different."""
    async with bad_worker(database_url, bad) as member:
        queue, table = member.queue, member.queue.table

        def settle(lease: Lease[Any]) -> None:
            with lease.settling(Done({f"v{bad}": f"settled {bad}"}, finish=True)) as session:
                session.execute(sa.update(table).values({f"j{bad}": {"by": bad}}))

        queue.handler(stage=f"one{bad}")(settle)
        await member.put(bad_row(bad))
        await member.bench.drain()

        assert await values_of(member, named(bad)["state"]) == [f"done{bad}"]
        assert await values_of(member, f"v{bad}") == [f"settled {bad}"]
        assert await values_of(member, f"j{bad}") == [{"by": bad}]


@each_bad
async def test_rows_are_renewed_released_rescued_and_buried(database_url: str, bad: str) -> None:
    async with bad_worker(database_url, bad) as member:
        state, stage = named(bad)["state"], f"one{bad}"
        await member.put(bad_row(bad, 0), bad_row(bad, 1) | {f"r{bad}": 5})
        first, second = await member.claim(5)
        assert first.key == f"{bad}1"
        assert (await member.store.renew([first, second])).lost == []
        assert (await member.release(second)).kept == 1
        await member.expire()
        assert await member.rescue() == Rescued(returned=1)
        leases = await member.claim(5)
        assert len(leases) == 2
        assert await member.store.crashed(member.queue, leases) == {f"{bad}1"}
        await member.expire()
        assert await member.rescue() == Rescued(returned=1, buried=1)
        assert await values_of(member, state) == [f"ready{bad}", f"dead{bad}"]
        assert {row.stage for row in await member.own("attempt")} == {stage}


@each_bad
async def test_rows_of_a_key_keep_their_order(database_url: str, bad: str) -> None:
    async with bad_worker(database_url, bad, in_order=True) as member:
        await member.put(*(bad_row(bad, number) for number in range(3)))
        [first] = await member.claim(5)
        assert first.key == f"{bad}0"
        assert (await member.settle((first, Done(finish=True)))).kept == 1
        [second] = await member.claim(5)
        assert second.key == f"{bad}1"
        _, holds = await member.mill.run(lambda c: why(c, member.store.sql(member.queue), f"{bad}2"))
        assert ("order", f"{bad}1") in [(hold.reason, hold.facts.get("key")) for hold in holds]


@each_bad
async def test_operators_see_and_change_the_rows_they_mean(database_url: str, bad: str) -> None:
    async with bad_worker(database_url, bad) as member:
        queue, sql, store = member.queue, member.store.sql(member.queue), member.store
        await member.put(*(bad_row(bad, number) for number in range(3)))
        [lease] = await member.claim(1)
        await member.settle((lease, Dead(bad, bad)))
        key = str(lease.key)

        found = await member.mill.run(lambda c: counts.counts(c, sql))
        assert {one.word: one.rows for one in found if one.rows} == {f"ready{bad}": 2, f"dead{bad}": 1}
        assert (await member.mill.run(lambda c: counts.depth(c, sql, 10))).rows == 2
        await member.mill.run(lambda c: activity.oldest_ready(c, sql))
        assert (await member.mill.run(lambda c: activity.failures(c, queue))).codes == {bad: 1}
        row, holds = await member.mill.run(lambda c: why(c, sql, key))
        assert (row.key, row.error, holds[0].reason) == (key, f"{bad}: {bad}", "dead")
        assert [one.message for one in await member.mill.run(lambda c: browse.history(c, sql, key))] == [bad]

        wanted = Filter(states=(f"dead{bad}",), stage=f"one{bad}", error_code=bad, keys=(key,))
        assert [one.key for one in await member.mill.run(lambda c: browse.list_rows(c, sql, wanted, 9))] == [key]
        assert await member.mill.run(lambda c: fleet.pause(c, queue, f"one{bad}"))
        assert list(await member.mill.run(lambda c: fleet.paused(c, queue))) == [f"one{bad}"]
        assert await member.mill.run(lambda c: fleet.resume(c, queue, f"one{bad}")) == 1

        assert (await change.requeue(store, queue, wanted)).rows == 1
        assert (await change.cancel(store, queue, Filter(keys=(key,)))).rows == 1
        assert (await change.prune(store, queue, Filter(keys=(key,)), timedelta(0))).rows == 1
        assert await values_of(member, named(bad)["state"]) == [f"ready{bad}"] * 2


@pytest.mark.parametrize("taken", ["%(param_1)s", "a __[POSTCOMPILE_param_1] b"])
async def test_what_sqlalchemy_takes_for_a_parameter_is_refused(database_url: str, taken: str) -> None:
    """It would write a value of the statement's into the name, or into the word, quoted or not."""
    mill = Mill(database_url)
    tables = [jobs(name=taken), jobs(schema=taken), jobs(Column(taken, sa.Text))]
    for table in tables:
        with pytest.raises(DeclarationError, match="for a parameter of its own"):
            mill.queue(table, name="queue")
    with pytest.raises(DeclarationError, match="for a parameter of its own"):
        mill.queue(jobs(), states=States(done=taken))
    with pytest.raises(DeclarationError, match="for a parameter of its own"):
        mill.queue(jobs(), crash_codes=CrashCodes(requeued=taken))


async def test_a_schema_that_sqlalchemy_can_not_leave_out_is_refused(sqlite_url: str) -> None:
    with pytest.raises(DeclarationError, match="leave out its brackets"):
        Mill(sqlite_url).queue(jobs(schema="a[b]"))


@each_bad
async def test_an_index_has_one_name_here_and_in_the_database(database_url: str, bad: str) -> None:
    """`create_all` and `migrate` both make the indexes: under two names there would be two of each."""
    async with bad_worker(database_url, bad, in_order=True) as member:
        table = member.queue.table
        found = await member.mill.run(lambda connection: index_names(connection, table))
        assert found == {index.name for index in table.indexes}


def index_names(connection: sa.Connection, table: sa.Table) -> set[str | None]:
    """SQLAlchemy does not read SQLite's indexes on expressions."""
    if connection.dialect.name == "postgresql":
        return {index["name"] for index in sa.inspect(connection).get_indexes(table.name, table.schema)}
    master = sa.text("SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = :name AND sql IS NOT NULL")
    return set(connection.scalars(master, {"name": table.name}))


async def test_a_word_may_end_in_a_backslash_whatever_the_database_makes_of_it(pg_url: str) -> None:
    """With `standard_conforming_strings = off`, a backslash before a quote would make the quote part of the word."""
    with psycopg.connect(pg_url, autocommit=True) as connection:
        connection.execute(f'ALTER DATABASE "{connection.info.dbname}" SET standard_conforming_strings = off')

    async with bad_worker(pg_url, BAD["dollars"]) as member:
        await live_one(member, BAD["dollars"])


async def live_one(member: Member, bad: str) -> None:
    await member.put(bad_row(bad))
    [lease] = await member.claim(1)
    assert (await member.settle((lease, Dead(bad, bad)))).kept == 1
    assert (await change.requeue(member.store, member.queue, Filter())).rows == 1
    assert await values_of(member, named(bad)["state"]) == [f"ready{bad}"]
