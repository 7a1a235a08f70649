"""A database with tables of somebody else's, and adopt on it."""

import os
from collections.abc import AsyncIterator
from typing import Any
from unittest import mock

import pytest
import sqlalchemy as sa

from rowmill import Lease, Mill
from rowmill.adopt import Adoption, AdoptOptions, carry_out, examine_table
from rowmill.maintenance import upkeep
from rowmill.store import expressions
from rowmill.store.open import open_store, parse_url
from rowmill.store.port import Store
from rowmill.worker import Report
from tests.adopt.tables import Handmade


class Site:
    """An existing database."""

    def __init__(self, url: str, store: Store) -> None:
        self.url = url
        self.store = store

    @property
    def postgres(self) -> bool:
        return self.store.dialect.name == "postgresql"

    async def sql(self, *statements: str) -> None:
        def work(connection: sa.Connection) -> None:
            for statement in statements:
                expressions.run(connection, statement)

        await self.store.run(work)

    async def rows(self, query: str) -> list[tuple[Any, ...]]:
        return await self.store.run(lambda c: [tuple(row) for row in c.execute(expressions.as_text(query))])

    async def value(self, query: str) -> Any:
        return (await self.rows(query))[0][0]

    async def make(self, handmade: Handmade) -> None:
        await self.sql(*(handmade.postgres if self.postgres else handmade.sqlite), *handmade.inserts())

    async def look(self, table: str, choices: AdoptOptions | None = None) -> Adoption:
        return await self.store.run(lambda connection: examine_table(connection, table, choices))

    async def adopt(self, table: str, choices: AdoptOptions | None = None) -> Adoption:
        """Look, do it, and see that a second look finds nothing to do."""
        found = await self.look(table, choices)
        await carry_out(self.store, found.plan)
        again = await self.look(table, choices)
        assert not again.plan, again.plan
        return found

    def declared(self, found: Adoption) -> dict[str, Any]:
        """What the printed declaration makes, run as it stands."""
        assert found.declaration is not None
        names: dict[str, Any] = {}
        with mock.patch.dict(os.environ, {"DATABASE_URL": self.url, "ROWMILL_DATABASE_URL": self.url}):
            exec(compile(found.declaration, "declaration", "exec"), names)
        return names

    async def drain_declared(self, found: Adoption) -> Report:
        """Work off the rows by the printed declaration, with a handler added to it."""
        mill: Mill = self.declared(found)["mill"]
        await mill.migrate()
        for queue in mill.queues.values():
            queue.handler(nothing)
        return await mill.drain()


async def nothing(lease: Lease[Any]) -> None: ...


async def opened(url: str) -> AsyncIterator[Site]:
    store = open_store(parse_url(url))
    await store.open()
    try:
        yield Site(url, store)
    finally:
        await store.close()


@pytest.fixture(autouse=True)
def _one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are in progress are rescued when they are first seen expired: their holders are no workers of ours."""
    monkeypatch.setattr(upkeep, "GRACE", 0.0)


@pytest.fixture
async def site(database_url: str) -> AsyncIterator[Site]:
    async for found in opened(database_url):
        yield found


@pytest.fixture
async def postgres(pg_url: str) -> AsyncIterator[Site]:
    async for found in opened(pg_url):
        yield found


@pytest.fixture
async def sqlite(sqlite_url: str) -> AsyncIterator[Site]:
    async for found in opened(sqlite_url):
        yield found
