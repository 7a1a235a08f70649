"""A mill in good health, to be made ill."""

from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from psycopg import sql

import rowmill as rm
from rowmill.doctor import DoctorFinding, Thresholds, audit
from rowmill.store import expressions


def jobs_table(*more: sa.Column[Any], zone: bool = True) -> sa.Table:
    return sa.Table(
        "jobs",
        sa.MetaData(),
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("status", sa.String(20), server_default="pending"),
        sa.Column("attempts", sa.Integer, server_default="0"),
        sa.Column("available_at", sa.DateTime(timezone=zone)),
        sa.Column("lease", sa.BigInteger),
        sa.Column("leased_until", sa.DateTime(timezone=zone)),
        sa.Column("error", sa.Text),
        sa.Column("finished_at", sa.DateTime(timezone=zone)),
        sa.Column("secret", sa.Text),
        *more,
    )


WORDS = rm.States(ready="pending", running="processing", done="done", dead="failed")


class Clinic:
    """A mill, and its doctor."""

    def __init__(self, mill: rm.Mill) -> None:
        self.mill = mill

    @property
    def postgres(self) -> bool:
        return self.mill.store.dialect.name == "postgresql"

    async def sql(self, *statements: str) -> None:
        def work(connection: sa.Connection) -> None:
            for statement in statements:
                expressions.run(connection, statement)

        await self.mill.run(work)

    async def audit(self, limits: Thresholds | None = None) -> list[DoctorFinding]:
        async with self.mill.opened() as store:
            return await audit(store, list(self.mill.queues.values()), limits)

    async def codes(self, limits: Thresholds | None = None) -> set[str]:
        return {finding.code for finding in await self.audit(limits)}

    async def only(self, limits: Thresholds | None = None) -> DoctorFinding:
        """The one finding there is."""
        found = await self.audit(limits)
        assert len(found) == 1, found
        assert found[0].fix
        return found[0]

    def insert(self, word: str, **values: str) -> str:
        """An INSERT of one row; values are SQL."""
        names, given = ", ".join(["status", *values]), ", ".join([word, *values.values()])
        return f"INSERT INTO jobs ({names}) VALUES ({given})"

    def at(self, seconds: float) -> str:
        """A time, as SQL."""
        if self.postgres:
            return f"now() + {seconds} * interval '1 second'"
        return f"strftime('%Y-%m-%d %H:%M:%f000', 'now', '{seconds} seconds')"


@pytest.fixture
def clinic_url(database_url: str) -> str:
    """The role of the tests may be called rowmill, whose default schema would be Rowmill's own: a finding."""
    if database_url.startswith("postgresql"):
        public_first(database_url)
    return database_url


def public_first(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        name = sql.Identifier(connection.info.dbname)
        connection.execute(sql.SQL("ALTER DATABASE {} SET search_path = public").format(name))


async def healthy(url: str, *more: sa.Column[Any], **mapped: str) -> AsyncIterator[Clinic]:
    mill = rm.Mill(url)
    queue = mill.queue(jobs_table(*more), columns=rm.Columns(state="status", **mapped), states=WORDS)

    @queue.handler()
    async def work(lease: rm.Lease[rm.Record]) -> None:
        pass

    async with mill.opened():
        await mill.migrate(tables=True)
        yield Clinic(mill)


@pytest.fixture
async def clinic(clinic_url: str) -> AsyncIterator[Clinic]:
    async for found in healthy(clinic_url):
        yield found


@pytest.fixture
async def clinic_with_limits(clinic_url: str) -> AsyncIterator[Clinic]:
    """The rows have limits of attempts of their own."""
    async for found in healthy(clinic_url, sa.Column("max_retries", sa.Integer), max_attempts="max_retries"):
        yield found


@pytest.fixture
async def postgres(pg_url: str) -> AsyncIterator[Clinic]:
    public_first(pg_url)
    async for found in healthy(pg_url):
        yield found


@pytest.fixture
async def sqlite(sqlite_url: str) -> AsyncIterator[Clinic]:
    async for found in healthy(sqlite_url):
        yield found
