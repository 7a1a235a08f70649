"""Rowmill's own tables for schedules: made by every way to migrate, from nothing and from the version before."""

import pytest
import sqlalchemy as sa

import rowmill as rm
from rowmill.doctor import audit
from rowmill.store.indexes import IndexState, has_wake_trigger, index_states, queue_indexes
from rowmill.store.own import schema
from rowmill.store.own.schedule_tables import QUEUE
from tests.schedules.plant import QUICK

pytestmark = pytest.mark.empty_database


def mill_with_schedule(url: str) -> rm.Mill:
    mill = rm.Mill(url)
    mill.every("beat", rm.seconds(1))(lambda tick: None)
    return mill


def back_to_the_version_before(connection: sa.Connection) -> None:
    """A database as the version before schedules left it."""
    own = schema.own_tables(connection.dialect.name)
    later = [own.tick, own.schedule, own.finding, own.reconciliation, *own.limits, own.limit_declaration]
    own.metadata.drop_all(connection, tables=later)
    connection.execute(sa.text(f"ALTER TABLE {own.worker.fullname} DROP COLUMN settle_lag"))
    connection.execute(sa.text(f"ALTER TABLE {own.attempt.fullname} DROP COLUMN traceback"))
    connection.execute(sa.delete(own.meta).where(own.meta.c.version > 3))


@pytest.mark.filterwarnings("ignore:Skipped unsupported reflection of expression-based index")
async def test_the_tables_come_with_the_indexes_and_the_trigger_of_a_queue(database_url: str) -> None:
    """Alembic brings the own tables alone: they have to be whole without a mill."""
    mill = mill_with_schedule(database_url)
    async with mill.opened():
        await mill.run(schema.migrate)
        sql = mill.store.sql(mill[QUEUE])
        states = await mill.run(lambda c: index_states(c, sql, queue_indexes(sql)))
        assert set(states.values()) == {IndexState.GOOD}
        there = await mill.run(lambda c: sa.inspect(c).get_indexes(mill[QUEUE].table.name, mill[QUEUE].table.schema))
        assert any(str(index["name"]).endswith("tick_finished") for index in there), "old ticks go by this one"
        if mill.store.dialect.name == "postgresql":
            assert await mill.run(lambda c: has_wake_trigger(c, sql))


async def test_a_database_of_the_version_before_is_brought_along(database_url: str) -> None:
    mill = mill_with_schedule(database_url)
    async with mill.opened():
        await mill.migrate()
        await mill.run(back_to_the_version_before)
        assert await mill.run(schema.version_of) == 3
        assert await mill.migrate() == [version for version in schema.MIGRATIONS if version > 3]
        assert (await mill.drain(settings=QUICK)).dead == 0


async def test_the_doctor_finds_nothing_wrong_with_the_ticks(database_url: str) -> None:
    mill = mill_with_schedule(database_url)
    async with mill.opened():
        await mill.migrate()
        await mill.drain(settings=QUICK)
        found = await audit(mill.store, list(mill.queues.values()))
        assert [finding for finding in found if finding.queue == QUEUE and finding.code != "no_worker"] == []
