"""The resolver works in a transaction of the engine as well, whose connections begin and commit by themselves."""

import pytest
import sqlalchemy as sa

import rowmill as rm
from rowmill_systems.companies.models import tables_of
from rowmill_systems.companies.resolver import CompanyIdResolver
from rowmill_systems.companies.settings import CompaniesSettings
from systems.tests.companies.ladder.conftest import SALT


class Stop(Exception):
    """Ends a transaction."""


def resolve(connection: sa.Connection, settings: CompaniesSettings, broken: bool = False) -> list[str]:
    resolver = CompanyIdResolver(connection, settings, salt=SALT)
    if broken:
        connection.exec_driver_sql(f"DROP TABLE {resolver.mappings.tables.mappings.fullname}")
    return [answer.rung for answer in resolver.resolve(["Acme", "Beta", ""])]


def count(connection: sa.Connection) -> int:
    requests = tables_of(connection.dialect.name).requests
    return connection.scalar(sa.select(sa.func.count()).select_from(requests)) or 0


async def test_a_transaction_of_the_engine_is_committed_and_rolled_back_as_a_whole(
    database_url: str, settings: CompaniesSettings
) -> None:
    def stopped(connection: sa.Connection) -> None:
        resolve(connection, settings)
        raise Stop

    mill = rm.Mill(database_url)
    async with mill.opened():
        with pytest.raises(Stop):
            await mill.run(stopped)
        assert await mill.run(count, write=False) == 0
        assert await mill.run(lambda connection: resolve(connection, settings)) == ["queue", "queue", "none"]
        assert await mill.run(count, write=False) == 2


async def test_a_rung_that_fails_leaves_a_transaction_of_the_engine_usable(
    database_url: str, settings: CompaniesSettings
) -> None:
    mill = rm.Mill(database_url)
    async with mill.opened():
        found = await mill.run(lambda connection: resolve(connection, settings, broken=True))
        assert found == ["queue", "queue", "none"]
        assert await mill.run(count, write=False) == 2
