"""An asset check fails when the oldest ready row has waited for too long."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg
import pytest
import sqlalchemy as sa

import rowmill as rm
from rowmill.errors import DatabaseUnreachable
from rowmill.integrations.dagster import oldest_ready_check
from tests.integrations.parcels import make_mill, put

PARCELS = dg.AssetSpec("parcel")


def check(mill: rm.Mill, **options: Any) -> dg.AssetCheckEvaluation:
    """Run the check in Dagster, and return what it found."""
    checks = oldest_ready_check(asset=PARCELS, queue="parcel", max_age=600, **options)
    selection = dg.AssetSelection.checks(checks)
    job = dg.define_asset_job("check_job", selection=selection)
    defs = dg.Definitions(assets=[PARCELS], asset_checks=[checks], jobs=[job], resources={"mill": mill})
    result = defs.resolve_job_def("check_job").execute_in_process()
    [evaluation] = result.get_asset_check_evaluations()
    return evaluation


def age(mill: rm.Mill, seconds: float) -> None:
    """Make the rows available some time ago."""
    moment = datetime.now(UTC) - timedelta(seconds=seconds)
    update = sa.update(mill["parcel"].table).values(available_at=moment)
    asyncio.run(mill.run(lambda c: c.execute(update).close()))


def test_a_queue_without_ready_rows_passes(mill: rm.Mill) -> None:
    found = check(mill)

    assert (found.passed, found.description) == (True, "no row is ready")


def test_a_young_row_passes(mill: rm.Mill) -> None:
    put(mill, "a")
    age(mill, 60)

    found = check(mill)

    assert found.passed
    assert 59 < float(str(found.metadata["oldest_ready_seconds"].value)) < 500


def test_an_old_row_fails_the_check_with_its_age(mill: rm.Mill) -> None:
    put(mill, "a", "b")
    age(mill, 7200)

    found = check(mill, severity=dg.AssetCheckSeverity.WARN)

    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert float(str(found.metadata["oldest_ready_seconds"].value)) >= 7200
    assert found.metadata["max_age_seconds"].value == 600


def test_a_row_that_waits_for_a_later_time_is_not_old(mill: rm.Mill) -> None:
    put(mill, "a")
    age(mill, -3600)

    assert check(mill).passed


def test_a_database_that_is_away_does_not_pass() -> None:
    with pytest.raises(DatabaseUnreachable):
        check(make_mill("postgresql://nobody@127.0.0.1:1/nowhere"))
