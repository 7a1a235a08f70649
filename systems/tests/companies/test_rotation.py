"""A new salt: all ids are derived anew, whenever the work is interrupted."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

import rowmill as rm
from rowmill_systems.companies.companies import Companies
from rowmill_systems.companies.lookup_queue import LookupQueue
from rowmill_systems.companies.rotation import RotationReport, rotate_salt
from rowmill_systems.companies.salts import SaltMismatch, Salts, check_salts, fingerprint
from rowmill_systems.companies.service import CompanyEnrichmentService
from rowmill_systems.companies.temp_ids import normalize_for_temp_id
from rowmill_systems.companies.write_back import register_target
from systems.tests.companies.harness import SALT, settings_for, sync_companies
from tests.support.postgres import REPOSITORY
from tests.support.python import run_python

NAMES = [f"Company {n}" for n in range(25)]
NEW = "the new salt"
BOTH = Salts(NEW, SALT)


def fill(companies: Companies) -> None:
    """Requests for all names, a target with two rows of each, and a row that has its real id."""
    with companies.engine.begin() as connection:
        results = LookupQueue(connection, companies.settings).enqueue_many(NAMES)
        connection.exec_driver_sql("CREATE TABLE policies (id INTEGER PRIMARY KEY, company TEXT)")
        register_target(connection, "policies", "company")
        policies = sa.table("policies", sa.column("id"), sa.column("company"))
        ids = [result.temp_id for result in results] * 2 + ["C-1"]
        connection.execute(sa.insert(policies), [{"id": n, "company": each} for n, each in enumerate(ids)])


def expected(salt: str) -> list[str]:
    made = Salts(salt)
    return [made.temp_id(normalize_for_temp_id(name)) for name in NAMES]


def found(companies: Companies) -> tuple[list[str], list[str]]:
    """Return the ids of requests and of the target."""
    c = companies.tables.requests.c
    with companies.engine.connect() as connection:
        requests = list(connection.scalars(sa.select(c.temp_id).order_by(c.id)))
        rows = list(connection.exec_driver_sql("SELECT company FROM policies ORDER BY id").scalars())
    return sorted(requests), rows


def test_all_ids_are_rewritten_and_counted(database_url: str) -> None:
    with sync_companies(database_url) as (companies, _):
        fill(companies)
        told: list[RotationReport] = []
        report = rotate_salt(companies.engine, BOTH, companies.log, batch=10, progress=told.append)
        assert report == RotationReport(requests=25, rows=50)
        assert [each.requests for each in told] == [10, 20, 25, 25]
        assert found(companies) == (sorted(expected(NEW)), [*expected(NEW) * 2, "C-1"])
        assert rotate_salt(companies.engine, BOTH, companies.log).rows == 0, "idempotent"
    refused = Companies(settings_for(database_url))
    with pytest.raises(SaltMismatch), refused.engine.begin() as connection:
        check_salts(connection, refused.tables, refused.salts)
    refused.engine.dispose()


def test_a_rotation_goes_on_where_it_was_interrupted(database_url: str) -> None:
    """Meanwhile both salts are accepted, and rows with the old id get their company."""
    with sync_companies(database_url, {NAMES[24]: "C-24", NAMES[0]: "C-0"}) as (companies, _):
        fill(companies)

        def interrupt(report: RotationReport) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            rotate_salt(companies.engine, BOTH, companies.log, batch=10, progress=interrupt)
        new = Companies(settings_for(database_url, temp_id_salt=NEW, temp_id_salt_previous=SALT))
        for each in (companies, new):
            with each.engine.begin() as connection:
                check_salts(connection, each.tables, each.salts)
        with companies.engine.begin() as connection:  # a pipeline that does not know yet
            late = LookupQueue(connection, companies.settings).enqueue("Late Company")
            assert late.temp_id == Salts(SALT).temp_id(late.normalized_name)
        run = CompanyEnrichmentService(companies).process_lookup_queue()
        assert (run.done, run.rows_written) == (2, 4), "of names with the old id, and with the new one"
        report = rotate_salt(companies.engine, BOTH, companies.log, batch=10)
        assert report.requests == 26
        requests, rows = found(companies)
        assert Salts(NEW).temp_id(late.normalized_name) in requests
        assert rows == [*("C-0", *expected(NEW)[1:24], "C-24") * 2, "C-1"]
        new.engine.dispose()


@pytest.mark.parametrize(
    ("salts", "why"),
    [
        (Salts(NEW), "a rotation needs both salts"),
        (Salts(NEW, NEW), "both salts are the same"),
        (Salts(NEW, "a third"), "made with neither of these salts"),
    ],
)
def test_a_rotation_that_can_t_be_right_is_refused(database_url: str, salts: Salts, why: str) -> None:
    with sync_companies(database_url) as (companies, _):
        fill(companies)
        before = found(companies)
        with pytest.raises(rm.errors.BadRequest, match=why):
            rotate_salt(companies.engine, salts, companies.log)
        assert found(companies) == before


def test_an_interrupted_rotation_can_t_be_mixed_with_another(database_url: str) -> None:
    with sync_companies(database_url) as (companies, _):
        fill(companies)

        def interrupt(report: RotationReport) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            rotate_salt(companies.engine, BOTH, companies.log, batch=10, progress=interrupt)
        with pytest.raises(SaltMismatch, match="another rotation was interrupted"):
            rotate_salt(companies.engine, Salts("a third", NEW), companies.log)


def test_a_target_that_failed_is_rewritten_by_the_next_rotation(database_url: str) -> None:
    """Until then the rotation is not over, and ids of both salts are accepted."""
    with sync_companies(database_url) as (companies, _):
        fill(companies)
        with companies.engine.begin() as connection:
            connection.exec_driver_sql("ALTER TABLE policies RENAME COLUMN company TO other")
        report = rotate_salt(companies.engine, BOTH, companies.log, batch=10)
        assert report == RotationReport(requests=25, rows=0, failed=("policies.company",))
        with companies.engine.begin() as connection:
            check_salts(connection, companies.tables, companies.salts)
            connection.exec_driver_sql("ALTER TABLE policies RENAME COLUMN other TO company")
        assert rotate_salt(companies.engine, BOTH, companies.log, batch=10) == RotationReport(requests=25, rows=50)
        assert found(companies)[1] == [*expected(NEW) * 2, "C-1"]


@pytest.mark.parametrize("point", ["begun", "requests written", "targets written", "committed"])
def test_a_rotation_that_is_killed_at_any_point(database_url: str, tmp_path: Path, point: str) -> None:
    with sync_companies(database_url) as (companies, _):
        fill(companies)
        given: dict[str, Any] = {
            "WDH_DATABASE_URL": database_url, "WDH_TEMP_ID_SALT": NEW, "WDH_TEMP_ID_SALT_PREVIOUS": SALT,
        }  # fmt: skip
        killed = run_python(
            "-m", "systems.tests.companies.dying", "rotation", point, env=os.environ | given, cwd=REPOSITORY
        )
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        requests, rows = found(companies)
        changed = sum(each in set(expected(NEW)) for each in requests)
        assert changed == (10 if point == "committed" else 0)
        assert sum(each in set(expected(NEW)) for each in rows) == 2 * changed, "together, or not at all"
        report = rotate_salt(companies.engine, BOTH, companies.log, batch=10)
        assert report == RotationReport(requests=25, rows=50)
        assert found(companies) == (sorted(expected(NEW)), [*expected(NEW) * 2, "C-1"])
        with companies.engine.connect() as connection:
            meta = {row.key: row.value for row in connection.execute(sa.select(companies.tables.meta))}
        assert (meta["salt_fingerprint"], "salt_rotation" in meta) == (fingerprint(NEW), False)
