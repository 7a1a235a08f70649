"""Companies on a database, with a scripted provider."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import sqlalchemy as sa

from rowmill.testing import QUICK, Bench
from rowmill_systems.companies.companies import Companies
from rowmill_systems.companies.lookup_queue import LookupQueue
from rowmill_systems.companies.service import CompanyEnrichmentService, LookupRun
from rowmill_systems.companies.settings import CompaniesSettings
from rowmill_systems.companies.write_back import register_target
from systems.tests.companies.fake_providers import ScriptedProvider

SALT = "a salt of the tests"


def settings_for(url: str, **more: Any) -> CompaniesSettings:
    return CompaniesSettings(**{"database_url": url, "temp_id_salt": SALT} | more)


class CompaniesHarness:
    """Companies, and what a test asks of them."""

    def __init__(self, companies: Companies, provider: ScriptedProvider) -> None:
        self.companies, self.provider, self.mill = companies, provider, companies.mill
        self.service = CompanyEnrichmentService(companies)
        self.bench = Bench(companies.mill)
        self.requests = companies.tables.requests

    async def run(self, batch_size: int | None = None, *, plan_only: bool = False) -> LookupRun:
        return await self.service.process_queue(batch_size, plan_only)

    async def enqueue(self, *names: str) -> None:
        await self.queue(lambda queue: queue.enqueue_many(names))

    async def queue(self, work: Any) -> Any:
        """Call something with a LookupQueue, in a transaction of its own."""
        companies = self.companies
        return await self.mill.run(lambda c: work(LookupQueue(c, companies.settings, salts=companies.salts)))

    async def sql(self, statement: str) -> int:
        """Run plain SQL, as an operator would. Return how many rows it changed."""
        named = statement.replace("REQUESTS", self.requests.fullname)
        return await self.mill.run(lambda connection: connection.exec_driver_sql(named).rowcount)

    async def read(self, statement: "sa.Select[Any]") -> Sequence[Any]:
        return await self.mill.run(lambda connection: connection.execute(statement).all(), write=False)

    async def rows(self) -> dict[str, Any]:
        """Return requests by their raw names; of several, the last one."""
        return {row.raw_name: row for row in await self.read(sa.select(self.requests).order_by(self.requests.c.id))}

    async def target(self, name: str = "policies", column: str = "company_id", schema: str = "") -> sa.TableClause:
        """Make a table of a pipeline, and register it."""
        full = f"{schema}.{name}" if schema else name

        def make(connection: sa.Connection) -> None:
            if schema:
                connection.exec_driver_sql(f"CREATE SCHEMA {schema}")
            connection.exec_driver_sql(f"CREATE TABLE {full} (id INTEGER PRIMARY KEY, {column} VARCHAR(40))")
            connection.exec_driver_sql(f"CREATE INDEX ix_{name} ON {full} ({column})")
            register_target(connection, full, column)

        await self.mill.run(make)
        return sa.table(name, sa.column("id", sa.Integer), sa.column(column, sa.Text), schema=schema or None)

    def temp_id(self, name: str) -> str:
        from rowmill_systems.companies.temp_ids import normalize_for_temp_id

        return self.companies.salts.temp_id(normalize_for_temp_id(name))


@asynccontextmanager
async def companies_on(url: str, answers: Any = None, **more: Any) -> AsyncIterator[CompaniesHarness]:
    provider = answers if isinstance(answers, ScriptedProvider) else ScriptedProvider(answers)
    companies = Companies(settings_for(url, **more), providers=[provider])
    companies.mill.settings = QUICK
    await companies.migrate()
    async with companies.opened():
        yield CompaniesHarness(companies, provider)


@contextmanager
def sync_companies(url: str, answers: Any = None, **more: Any) -> Iterator[tuple[Companies, ScriptedProvider]]:
    """Companies for code without an event loop. The tables are there."""
    provider = answers if isinstance(answers, ScriptedProvider) else ScriptedProvider(answers)
    companies = Companies(settings_for(url, **more), providers=[provider])
    companies.mill.settings = QUICK
    try:
        yield companies, provider
    finally:
        companies.engine.dispose()
