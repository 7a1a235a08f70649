"""Where the salt comes from, and that another one is refused."""

import logging
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa

from rowmill_systems.companies.companies import Companies
from rowmill_systems.companies.salts import SaltMismatch, SaltMissing, Salts, find_salts, fingerprint, salt_beside
from rowmill_systems.companies.settings import CompaniesSettings
from systems.tests.companies.harness import SALT, companies_on, settings_for


async def test_postgresql_without_a_salt_is_refused_with_what_to_do(pg_url: str) -> None:
    """C3: every machine has to use the same one, so none is made up."""
    companies = Companies(CompaniesSettings(database_url=pg_url))
    with pytest.raises(SaltMissing, match=r"set WDH_TEMP_ID_SALT to it: python -c"):
        async with companies.opened():
            pytest.fail("it was opened")
    await companies.migrate()  # by somebody who need not know the secret


async def test_sqlite_keeps_a_salt_beside_its_file(sqlite_url: str, tmp_path: Path) -> None:
    for _ in range(2):
        companies = Companies(CompaniesSettings(database_url=sqlite_url.replace("rowmill.db", "own.db")))
        await companies.migrate()
        async with companies.opened():
            salt = companies.salts.current
    file = tmp_path / "own.db.salt"
    assert file.read_text().strip() == salt
    assert len(salt) == 64
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600


def test_two_processes_that_start_at_once_get_the_same_salt(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: salt_beside(tmp_path / "new.db"), range(32)))
    assert len(found) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["new.db.salt"], "nothing else is left behind"


def test_an_empty_file_is_no_salt(tmp_path: Path) -> None:
    (tmp_path / "a.db.salt").write_text("\n")
    with pytest.raises(SaltMissing, match="Restore it"):
        salt_beside(tmp_path / "a.db")


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_a_database_in_memory_has_no_place_for_a_salt(url: str) -> None:
    with pytest.raises(SaltMissing):
        find_salts(CompaniesSettings(database_url=url), sa.make_url(url))


async def test_another_salt_is_refused_and_the_way_is_named(database_url: str) -> None:
    """C3: its ids would never be found again."""
    async with companies_on(database_url) as harness:
        await harness.enqueue("Acme")
    other = Companies(settings_for(database_url, temp_id_salt="another"))
    with pytest.raises(SaltMismatch, match="rotate-salt --execute"):
        async with other.opened():
            pytest.fail("it was opened")
    both = Companies(settings_for(database_url, temp_id_salt="another", temp_id_salt_previous=SALT))
    async with both.opened():
        assert both.salts.temp_ids("acme") == {Salts(SALT).temp_id("acme"), Salts("another").temp_id("acme")}


async def test_no_salt_reaches_a_message_a_log_or_a_table(database_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """C3."""
    caplog.set_level(logging.DEBUG)
    async with companies_on(database_url, temp_id_salt_previous="the salt of before") as harness:
        await harness.enqueue("Acme")
        shown = repr(harness.companies.salts) + repr(harness.companies.settings)
        meta = [tuple(row) for row in await harness.read(sa.select(harness.companies.tables.meta))]
    with pytest.raises(SaltMismatch) as refused:
        async with Companies(settings_for(database_url, temp_id_salt="third salt")).opened():
            pytest.fail("it was opened")
    for secret in (SALT, "the salt of before", "third salt"):
        assert secret not in shown + caplog.text + str(refused.value) + repr(meta)
    assert ("salt_fingerprint", fingerprint(SALT)) in meta
