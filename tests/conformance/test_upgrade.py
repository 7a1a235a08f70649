"""Rowmill's own tables are brought from each former version to this one."""

import pytest
import sqlalchemy as sa
from sqlalchemy import Connection

import rowmill as rm
from rowmill.store.clock import moment
from rowmill.store.own import schema
from rowmill.store.own.schema import own_tables

pytestmark = pytest.mark.empty_database


def make_first_version(connection: Connection) -> None:
    own = own_tables(connection.dialect.name)
    schema.MIGRATIONS[1](connection)
    connection.execute(own.meta.insert().values(version=1))
    connection.execute(own.pause.insert().values(queue="files", stage="", since=moment(connection.dialect.name)))


def names(connection: Connection) -> set[str]:
    own = own_tables(connection.dialect.name)
    return set(sa.inspect(connection).get_table_names(schema=own.meta.schema))


async def test_a_database_of_the_first_version_gets_the_tables_of_reconciliations(database_url: str) -> None:
    mill = rm.Mill(database_url)
    own = own_tables(mill.store.dialect.name)
    await mill.run(make_first_version)
    assert not {own.finding.name, own.reconciliation.name} & await mill.run(names)

    assert await mill.migrate() == list(range(2, schema.VERSION + 1))

    assert {table.name for table in own.metadata.tables.values()} <= await mill.run(names)
    assert await mill.run(schema.version_of) == schema.VERSION
    assert await mill.run(lambda c: c.scalar(sa.select(own.pause.c.queue))) == "files", "what was there stays"
    assert await mill.migrate() == []


async def test_failed_attempts_of_a_former_version_stay_and_have_no_traceback(database_url: str) -> None:
    def make_former_version(connection: Connection) -> None:
        own = own_tables(connection.dialect.name)
        for version in range(1, 9):
            schema.MIGRATIONS[version](connection)
            connection.execute(own.meta.insert().values(version=version))
        told = {"queue": "files", "key": "1", "stage": "work", "attempt": 1, "worker": 1, "code": "lost", "message": ""}
        connection.execute(own.attempt.insert().values(**told, ended_at=moment(connection.dialect.name)))

    mill = rm.Mill(database_url)
    own = own_tables(mill.store.dialect.name)
    await mill.run(make_former_version)

    assert await mill.migrate() == list(range(9, schema.VERSION + 1))

    rows = await mill.run(lambda c: c.execute(sa.select(own.attempt.c.code, own.attempt.c.traceback)).all())
    assert [tuple(row) for row in rows] == [("lost", None)]


@pytest.mark.filterwarnings("ignore:Skipped unsupported reflection of expression-based index")
async def test_an_upgraded_database_is_the_same_as_a_new_one(database_url: str) -> None:
    def shape(connection: Connection) -> dict[str, tuple[list[str], list[str]]]:
        looked, own = sa.inspect(connection), own_tables(connection.dialect.name)
        return {
            table.name: (
                [column["name"] for column in looked.get_columns(table.name, schema=table.schema)],
                sorted(str(index["name"]) for index in looked.get_indexes(table.name, schema=table.schema)),
            )
            for table in own.metadata.sorted_tables
        }

    mill = rm.Mill(database_url)
    await mill.run(make_first_version)
    await mill.migrate()
    upgraded = await mill.run(shape)
    await mill.run(lambda connection: own_tables(connection.dialect.name).metadata.drop_all(connection))
    assert await mill.migrate() == list(range(1, schema.VERSION + 1))

    assert await mill.run(shape) == upgraded
