"""A database from before limits gets their tables, and keeps what it has."""

import sqlalchemy as sa
from sqlalchemy import Connection

import rowmill as rm
from rowmill.store.schema import SCHEMA, own_tables
from tests.limits.granting import NOON, Asker, rules
from tests.work.shop import shop_on


def back_to_the_first_version(connection: Connection) -> None:
    own = own_tables(connection.dialect.name)
    if connection.dialect.name == "postgresql":
        for name in ("limit_take", "limit_finish", "limit_counts", "limit_bucket"):
            connection.execute(sa.text(f"DROP FUNCTION {SCHEMA}.{name}"))
    for table in own.limits:
        table.drop(connection)
    connection.execute(sa.delete(own.meta).where(own.meta.c.version > 1))


async def test_a_database_of_the_first_version_is_brought_on(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        await shop.put(3)
        await shop.run(back_to_the_first_version)

        assert await shop.mill.migrate() == [2]

        assert await shop.count() == 3
        taken, _ = await Asker(shop.mill.store.limiter, rules(rate=rm.Rate(5, per=1.0))).take(NOON, 9)
        assert taken.granted == 5
