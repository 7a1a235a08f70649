"""The job, the schedule and the sensor of companies, in Dagster."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import dagster as dg
import pytest
import sqlalchemy as sa

import rowmill as rm
from rowmill_systems.companies import orchestration
from rowmill_systems.companies.companies import Companies
from rowmill_systems.companies.lookup_queue import LookupQueue
from rowmill_systems.companies.models import SCHEMA, tables_of
from rowmill_systems.companies.service import CompanyEnrichmentService, LookupRun
from rowmill_systems.companies.settings import CompaniesSettings
from tests.integrations.dagster.processes import environment, start

pytestmark = [pytest.mark.xdist_group("dagster"), pytest.mark.empty_database]

JOB, OP = "process_company_lookup_queue_job", "process_company_lookup_queue_op"
ONE = datetime(2026, 3, 1, 13, tzinfo=ZoneInfo("Asia/Shanghai"))
MODULE = "rowmill_systems.companies.orchestration"


def evaluate(at: datetime = ONE) -> Any:
    return orchestration.async_enrichment_schedule.evaluate_tick(dg.build_schedule_context(scheduled_execution_time=at))


def test_the_names_are_those_that_operators_use() -> None:
    """C6: the names, the time table and the zone."""
    assert orchestration.defs.resolve_job_def(JOB) is not None
    assert [node.name for node in orchestration.process_company_lookup_queue_job.nodes] == [OP]
    assert orchestration.async_enrichment_schedule.name == "async_enrichment_schedule"
    assert orchestration.async_enrichment_schedule.cron_schedule == "0 * * * *"
    assert orchestration.async_enrichment_schedule.execution_timezone == "Asia/Shanghai"
    assert orchestration.enrichment_queue_sensor.name == "enrichment_queue_sensor"
    assert orchestration.enrichment_queue_sensor.minimum_interval_seconds == 300
    for definition in (orchestration.async_enrichment_schedule, orchestration.enrichment_queue_sensor):
        assert definition.job_name == JOB


def test_the_job_takes_batch_size_and_plan_only(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """C6: the configuration of the op reaches the service."""
    monkeypatch.setenv("WDH_DATABASE_URL", sqlite_url)
    calls: list[tuple[int | None, bool]] = []

    def processed(self: CompanyEnrichmentService, batch_size: int | None = None, plan_only: bool = False) -> LookupRun:
        calls.append((batch_size, plan_only))
        return LookupRun(plan_only, done=0 if plan_only else 7)

    monkeypatch.setattr(CompanyEnrichmentService, "process_lookup_queue", processed)
    job = orchestration.process_company_lookup_queue_job

    usual = job.execute_in_process()
    planned = job.execute_in_process(run_config={"ops": {OP: {"config": {"batch_size": 25, "plan_only": True}}}})

    assert [result.output_for_node(OP)["done"] for result in (usual, planned)] == [7, 0]
    assert calls == [(100, False), (25, True)]


def test_one_run_for_each_scheduled_time() -> None:
    """C6: the run key has the scheduled time."""
    keys = [evaluate(at).run_requests[0].run_key for at in (ONE, ONE, ONE + timedelta(hours=1))]

    assert keys[0] == keys[1] == "async_enrichment_2026-03-01T13:00:00+08:00"
    assert keys[2] == "async_enrichment_2026-03-01T14:00:00+08:00"


def test_the_schedule_is_skipped_when_it_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """C6, C10: with a reason."""
    monkeypatch.setenv("WDH_ASYNC_ENRICHMENT_ENABLED", "false")

    result = evaluate()

    assert (result.skip_message, result.run_requests) == ("async_enrichment_schedule is switched off", [])


@pytest.fixture
def requests(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[sa.Engine]:
    """The engine of a database with the tables, which the settings lead to."""
    monkeypatch.setenv("DATABASE_URL", database_url)
    engine = rm.Mill(database_url).store.sync_engine
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(sa.schema.CreateSchema(SCHEMA))
        tables_of(connection.dialect.name).metadata.create_all(connection)
    yield engine
    engine.dispose()


def put(engine: sa.Engine, *names: str, status: str = "pending") -> None:
    rows = [{"raw_name": name, "normalized_name": name, "status": status} for name in names]
    with engine.begin() as connection:
        connection.execute(sa.insert(tables_of(connection.dialect.name).requests), rows)


class Ticks:
    """Evaluates the sensor, and carries its cursor from tick to tick as the daemon does."""

    def __init__(self, instance: dg.DagsterInstance) -> None:
        self.instance = instance
        self.cursor: str | None = None

    def tick(self) -> Any:
        context = dg.build_sensor_context(instance=self.instance, cursor=self.cursor)
        result = orchestration.enrichment_queue_sensor.evaluate_tick(context)
        self.cursor = result.cursor
        return result


@pytest.fixture
def ticks() -> Iterator[Ticks]:
    with dg.instance_for_test() as instance:
        yield Ticks(instance)


def keys_of(result: Any) -> list[str]:
    return [request.run_key for request in result.run_requests]


def test_the_sensor_starts_the_job_above_the_threshold_and_again_while_the_backlog_stays(
    requests: sa.Engine, ticks: Ticks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C6, C10: no run key swallows a second run."""
    monkeypatch.setenv("WDH_ENRICHMENT_SENSOR_ENABLED", "true")
    monkeypatch.setenv("WDH_ENRICHMENT_QUEUE_THRESHOLD", "2")
    put(requests, "a", "b")
    put(requests, "x", "y", "z", status="done")

    below = ticks.tick()
    put(requests, "c")
    above, still_above = ticks.tick(), ticks.tick()

    assert (keys_of(below), below.skip_message) == ([], f"2 rows wait. {JOB} starts above 2")
    assert len(keys_of(above)) == len(keys_of(still_above)) == 1
    assert keys_of(above) != keys_of(still_above)


def test_the_sensor_is_off_by_default(ticks: Ticks, monkeypatch: pytest.MonkeyPatch) -> None:
    """C10: it does not even ask the database."""
    monkeypatch.setenv("DATABASE_URL", "postgresql://nobody@127.0.0.1:1/nowhere")

    assert ticks.tick().skip_message == "enrichment_queue_sensor is switched off"


def test_a_database_that_is_away_is_a_skipped_tick(ticks: Ticks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WDH_ENRICHMENT_SENSOR_ENABLED", "true")
    monkeypatch.setenv("DATABASE_URL", "postgresql://nobody:secret@127.0.0.1:1/nowhere")

    result = ticks.tick()

    assert result.skip_message.startswith("the rows could not be counted:")
    assert "secret" not in result.skip_message


def run_python(code: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", code], env=environment(Path(variables.pop("home")), **variables), capture_output=True,
        text=True, timeout=120,
    )  # fmt: skip


def test_cron_and_batch_size_are_read_from_the_environment(tmp_path: Path) -> None:
    """C6, C10: when Dagster loads the module."""
    code = (
        f"from {MODULE} import *\n"
        "import json\n"
        "print(async_enrichment_schedule.cron_schedule, async_enrichment_schedule.execution_timezone, "
        f"process_company_lookup_queue_job.nodes[0].definition.config_schema.as_field().config_type"
        ".fields['batch_size'].default_value)"
    )
    read = run_python(
        code, home=str(tmp_path), WDH_ENRICHMENT_SCHEDULE_CRON="15 3 * * *", WDH_ENRICHMENT_BATCH_SIZE="7"
    )

    assert read.stdout.split("\n")[0] == "15 3 * * * Asia/Shanghai 7", read.stderr


def test_a_cron_expression_that_is_none_names_the_variable(tmp_path: Path) -> None:
    read = run_python(f"import {MODULE}", home=str(tmp_path), WDH_ENRICHMENT_SCHEDULE_CRON="every hour")

    assert read.returncode == 1
    assert "WDH_ENRICHMENT_SCHEDULE_CRON" in read.stderr.splitlines()[-1]


def test_the_definitions_are_valid(tmp_path: Path) -> None:
    log = tmp_path / "log"
    variables = environment(tmp_path / "home", DATABASE_URL=f"sqlite:///{tmp_path / 'companies.db'}")
    with start("dagster", "definitions", "validate", "-m", MODULE, log=log, env=variables) as process:
        assert process.wait(120) == 0, log.read_text()


def test_the_settings_of_companies_do_not_import_dagster() -> None:
    code = "import sys, rowmill_systems.companies.settings; print('dagster' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"


def test_the_job_resolves_what_waits_by_a_file_of_companies(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C6: the real service and queue, from the environment alone."""
    (tmp_path / "known.csv").write_text("id,name\nC1,Acme Ltd\n")
    given = {"WDH_DATABASE_URL": database_url, "WDH_TEMP_ID_SALT": "a salt", "WDH_PROVIDERS": "file",
             "WDH_COMPANIES_FILE": str(tmp_path / "known.csv")}  # fmt: skip
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    companies = Companies(CompaniesSettings())
    asyncio.run(companies.migrate())
    with companies.engine.begin() as connection:
        LookupQueue(connection, companies.settings, salts=companies.salts).enqueue_many(["Acme Ltd", "Nobody Ltd"])
    job = orchestration.process_company_lookup_queue_job

    planned = job.execute_in_process(run_config={"ops": {OP: {"config": {"plan_only": True}}}}).output_for_node(OP)
    done = job.execute_in_process().output_for_node(OP)

    assert (planned["plan_only"], planned["due"], planned["done"]) == (True, 2, 0)
    assert (done["done"], done["no_match"], done["pending_count"]) == (1, 1, 0)
    c = companies.tables.requests.c
    with companies.engine.connect() as connection:
        found = connection.execute(sa.select(c.raw_name, c.resolved_company_id).order_by(c.id)).all()
    companies.engine.dispose()
    assert found == [("Acme Ltd", "C1"), ("Nobody Ltd", None)]
