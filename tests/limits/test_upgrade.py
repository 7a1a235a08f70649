"""A database from before limits gets their tables, and keeps what it has."""

import pytest
import sqlalchemy as sa
from sqlalchemy import Connection

import rowmill as rm
from rowmill.store.own import schema
from rowmill.store.own.schema import own_tables
from tests.limits.granting import NOON, Asker, rules
from tests.work.shop import shop_on

pytestmark = pytest.mark.empty_database

BEFORE = 5
"""The last version without limits."""


def make_the_version_before(connection: Connection) -> None:
    own = own_tables(connection.dialect.name)
    own.metadata.drop_all(connection)
    for version in range(1, BEFORE + 1):
        schema.MIGRATIONS[version](connection)
        connection.execute(own.meta.insert().values(version=version))
    assert not sa.inspect(connection).has_table(own.limits.ticket.name, schema=own.limits.ticket.schema)


async def test_a_database_of_the_version_before_limits_is_brought_on(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        await shop.put(3)
        await shop.run(make_the_version_before)

        assert await shop.mill.migrate() == [version for version in schema.MIGRATIONS if version > BEFORE]

        assert await shop.count() == 3
        taken, _ = await Asker(shop.mill.store.limiter, rules(rate=rm.limits.Rate(5, per=1.0))).take(NOON, 9)
        assert taken.granted == 5
