"""Rowmill's own tables, from each version to this one."""

from typing import Any

import sqlalchemy as sa

from rowmill import Mill, Queue
from rowmill.store import schema
from rowmill.store.schema import own_tables
from tests.conformance.fleet import jobs, worker


def plain(mill: Mill) -> Queue[Any]:
    return mill.queue(jobs())


async def test_receipts_of_the_second_version_say_what_was_kept_from_now_on(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        own = own_tables(member.store.dialect.name)
        await member.sql(f"ALTER TABLE {own.receipt.fullname} DROP COLUMN kept")
        await member.mill.run(lambda c: c.execute(sa.delete(own.meta).where(own.meta.c.version > 2)).close())
        steps = await member.mill.migrate()
        assert steps == list(range(3, schema.VERSION + 1))
        await member.put({})
        [lease] = await member.claim()
        assert (await member.settle((lease, None))).kept == 1
        [receipt] = await member.own("receipt")
        assert (receipt.rows, receipt.kept) == (1, None)
