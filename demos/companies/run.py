"""The demo: a pipeline, a service that misbehaves, workers that are killed, Dagster, and the checks at the end."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import psutil
import sqlalchemy as sa

from demos.companies.eqc_server import TOKEN
from demos.companies.names import MadeCompany, PipelineRow, make_companies, make_rows
from demos.crew import Crew, crew_in
from demos.performing import OnProgress
from rowmill_systems.companies.companies import Companies
from rowmill_systems.companies.lookup_queue import LookupQueue
from rowmill_systems.companies.mappings import CompanyMappingRepository, alias_of
from rowmill_systems.companies.processing import NAMES_AT_ONCE
from rowmill_systems.companies.resolver import CompanyIdResolver
from rowmill_systems.companies.settings import CompaniesSettings
from rowmill_systems.companies.temp_ids import is_temp_id
from rowmill_systems.companies.write_back import register_target

LONGEST = 300.0
LOOK_SECONDS = 0.5
BATCH = 2000
"""Rows that the pipeline inserts in one transaction."""
MAPPED_SHARE = 0.1
"""Companies that internal mappings know already."""
RUN_BUDGET = 6000
"""More than all names need: the workers share it, and this demo makes requests due that wait for the next hour."""
WORKERS = 2
KILLS = 2
FAULTS = {"429": 0.002, "500": 0.015, "hang": 0.001, "html": 0.003, "half": 0.003, "no_match": 0.0}
REFUSED_AT = 700
"""The request that is answered with 401."""
ORCHESTRATION = "rowmill_systems.companies.orchestration"
POLICIES = sa.Table(
    "policies",
    sa.MetaData(),
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("customer", sa.Text),
    sa.Column("company_id", sa.String(100), index=True),
)


@dataclass
class Result:
    rows: int = 0
    names: int = 0
    """Distinct names."""
    pipeline_seconds: float = 0.0
    by_rung: dict[str, int] = field(default_factory=dict)
    """Rows of the pipeline, by the rung that answered at first."""
    real: int = 0
    """Rows with a real id at the end."""
    wrong: int = 0
    """Rows with the id of another company."""
    temporary: dict[str, int] = field(default_factory=dict)
    """Rows that keep a temporary id, by reason."""
    without_name: int = 0
    requests: dict[str, int] = field(default_factory=dict)
    """Requests by status."""
    service: dict[str, Any] = field(default_factory=dict)
    """What the service observed."""
    most_asked_again: int = 0
    runs: dict[str, int] = field(default_factory=dict)
    """Runs of Dagster's job, by what started them."""
    killed: int = 0
    calls_by_run: list[int] = field(default_factory=list)
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return not self.problems

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"holds": self.holds}


def run(folder: Path, *, rows: int, names: int, database_url: str | None, on_progress: OnProgress) -> Result:
    """Run the demo in this folder. `on_progress` is called with the current step, the amount done, and the total."""
    begun, result = time.monotonic(), Result(rows, names)
    on_progress("making names", 0, rows)
    companies = make_companies(names // 2)
    pipeline = make_rows(companies, names, rows)
    variables = environment(folder, database_url)
    with eqc(folder, companies) as url:
        variables["WDH_EQC_BASE_URL"] = url
        with settings_from(variables), crew_in("companies", folder, variables) as crew:
            crew.migrate()
            system = Companies(CompaniesSettings())
            fill_mappings(system, companies)
            on_progress("the pipeline runs", 0, rows)
            run_pipeline(system, pipeline, result, on_progress)
            with dagster_daemon(folder, variables) as home:
                look_up(system, crew, home, result, on_progress)
                result.runs = runs_of(home)
            with system.engine.connect() as connection:
                look(connection, system, pipeline, result)
            system.engine.dispose()
        result.service = httpx2.get(f"{url}/control/counts", trust_env=False).json()
    judge(result)
    result.seconds = round(time.monotonic() - begun, 1)
    return result


def environment(folder: Path, database_url: str | None) -> dict[str, str]:
    return {
        "WDH_DATABASE_URL": database_url or f"sqlite:///{folder / 'companies.db'}",
        "WDH_TEMP_ID_SALT": "a salt of the demo",
        "WDH_PROVIDERS": "eqc",
        "WDH_EQC_TOKEN": TOKEN,
        "WDH_EQC_TIMEOUT_SECONDS": "1",
        "WDH_EQC_RUN_BUDGET": str(RUN_BUDGET),
        "WDH_ENRICHMENT_SENSOR_ENABLED": "true",
        "WDH_ENRICHMENT_QUEUE_THRESHOLD": "100",
        "WDH_ENRICHMENT_STALE_MINUTES": "0.2",
        "WDH_ENRICHMENT_SCHEDULE_CRON": "* * * * *",
    }


@contextmanager
def settings_from(variables: dict[str, str]) -> Iterator[None]:
    """Let settings of this process be read from these variables."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def eqc(folder: Path, companies: list[MadeCompany]) -> Iterator[str]:
    """Start the service in its own process. Yield its address."""
    registry = folder / "registry.csv"
    with registry.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["company_id", "name", "former_name"])
        writer.writerows([company.company_id, company.name, ""] for company in companies if company.known)
    plan = {"rates": FAULTS, "retry_after": 1.0, "next": [""] * REFUSED_AT + ["401"]}
    command = [sys.executable, "-m", "demos.companies.eqc_server", "--companies", str(registry)]
    process = subprocess.Popen([*command, "--plan", json.dumps(plan)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"]
    finally:
        process.kill()
        process.wait()


def fill_mappings(system: Companies, companies: list[MadeCompany]) -> None:
    """Let internal mappings know a part of the companies."""
    with system.engine.begin() as connection:
        mappings = CompanyMappingRepository(connection, system.settings)
        for company in companies[: int(len(companies) * MAPPED_SHARE)]:
            alias = alias_of("company_name", company.name)
            mappings.store_mapping("company_name", alias, company.company_id)


def run_pipeline(system: Companies, rows: list[PipelineRow], result: Result, on_progress: OnProgress) -> None:
    """Insert the rows of the pipeline with their ids, real or temporary. It asks nobody."""
    begun, rungs = time.monotonic(), Counter[str]()
    with system.engine.begin() as connection:
        POLICIES.create(connection)
        register_target(connection, "policies", "company_id")
    for start in range(0, len(rows), BATCH):
        some = rows[start : start + BATCH]
        with system.engine.begin() as connection:
            resolver = CompanyIdResolver(connection, system.settings, salt=system.salts.current)
            answers = resolver.resolve([row.name for row in some])
            values = [
                {"id": start + place, "customer": row.name, "company_id": answer.company_id}
                for place, (row, answer) in enumerate(zip(some, answers, strict=True))
            ]
            connection.execute(sa.insert(POLICIES), values)
        rungs.update(answer.rung for answer in answers)
        on_progress("the pipeline runs", start + len(some), len(rows))
    result.by_rung, result.pipeline_seconds = dict(rungs), round(time.monotonic() - begun, 1)


@contextmanager
def dagster_daemon(folder: Path, variables: dict[str, str]) -> Iterator[Path]:
    """Run the daemon of Dagster with the definitions of companies. Yield its home."""
    home = folder / "dagster"
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    runs_of(home)  # makes the tables: if the daemon and this process made them at once, one would fail
    own = {**os.environ, **variables, "DAGSTER_HOME": str(home), "DAGSTER_DISABLE_TELEMETRY": "1"}
    with (folder / "dagster.log").open("wb") as log:
        command = [sys.executable, "-m", "dagster._daemon", "run", "-m", ORCHESTRATION]
        process = subprocess.Popen(command, env=own, cwd=folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        yield home
    finally:
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        for left in psutil.process_iter():  # its code servers would live on for half a minute
            with suppress(psutil.Error):
                if left.environ().get("DAGSTER_HOME") == str(home):
                    left.kill()
        process.wait()


def look_up(system: Companies, crew: Crew, home: Path, result: Result, on_progress: OnProgress) -> None:
    """Let workers and Dagster empty the queue. Workers are killed meanwhile, and waits of minutes are cut short."""
    deadline = time.monotonic() + LONGEST
    wanted = None
    for _ in range(WORKERS):
        crew.work()
    while time.monotonic() < deadline:
        with system.engine.connect() as connection:
            stats = LookupQueue(connection).get_queue_stats()
        wanted = wanted or stats.total
        left = stats.pending + stats.processing
        on_progress("names are looked up", stats.total - left, stats.total)
        if result.killed < KILLS and left < wanted * (KILLS - result.killed) / (KILLS + 1):
            crew.kill_a_worker()
            result.killed += 1
        started = runs_of(home)
        if not left and {"schedule", "sensor"} <= started.keys():
            return
        with system.engine.begin() as connection:  # as an operator would: what waits for its next try is due now
            connection.execute(
                sa.text(
                    f"UPDATE {'enterprise.' if connection.dialect.name == 'postgresql' else ''}enrichment_requests "
                    "SET next_retry_at = NULL WHERE status = 'pending' AND next_retry_at > CURRENT_TIMESTAMP"
                )
            )
        time.sleep(LOOK_SECONDS)
    result.problems.append(f"not done within {LONGEST:.0f} s")


def runs_of(home: Path) -> dict[str, int]:
    """Count the runs of the job, by what started them."""
    from dagster import DagsterInstance

    with DagsterInstance.from_config(str(home)) as instance:
        tags = [run.tags for run in instance.get_runs()]
    found = Counter("schedule" if "dagster/schedule_name" in each else "sensor" for each in tags)
    return dict(found)


def look(connection: sa.Connection, system: Companies, rows: list[PipelineRow], result: Result) -> None:
    """Hold every row against the company that is meant."""
    requests = system.tables.requests
    outcomes = {
        row.temp_id: row.outcome or row.status
        for row in connection.execute(sa.select(requests.c.temp_id, requests.c.outcome, requests.c.status))
    }
    kept = Counter[str]()
    for row in connection.execute(sa.select(POLICIES).order_by(POLICIES.c.id)):
        meant = rows[row.id].company
        if row.company_id is None:
            result.without_name += 1
            if meant is not None:
                result.problems.append(f"row {row.id} has a name and no id")
        elif is_temp_id(row.company_id):
            kept[outcomes.get(row.company_id, "unaccounted")] += 1
        elif meant is not None and row.company_id == meant.company_id:
            result.real += 1
        else:
            result.wrong += 1
    result.temporary = dict(kept)
    counted = connection.execute(sa.select(requests.c.status, sa.func.count()).group_by(requests.c.status))
    result.requests = {row[0]: row[1] for row in counted}


def judge(result: Result) -> None:
    """Note what is not as it has to be."""
    if result.wrong:
        result.problems.append(f"{result.wrong} rows have the id of another company")
    if result.temporary.get("unaccounted"):
        result.problems.append(f"{result.temporary['unaccounted']} temporary ids have no request")
    if left := {status for status in result.requests if status in ("pending", "processing")}:
        result.problems.append(f"requests are still {', '.join(sorted(left))}")
    if result.temporary.get("accepted"):
        result.problems.append(f"{result.temporary['accepted']} rows were not written back")
    if missing := {"schedule", "sensor"} - result.runs.keys():
        result.problems.append(f"Dagster's {' and '.join(sorted(missing))} started no run")
    runs = sum(result.runs.values()) + 2  # the workers share the calls of an hour, and a new one may have begun
    if result.service["requests"] > runs * RUN_BUDGET:
        result.problems.append(f"{result.service['requests']} calls are more than the budgets of {runs} runs")
    # A killed process may have had answers that it had not stored yet.
    result.most_asked_again = result.killed * NAMES_AT_ONCE
    if result.service["answered_twice"] > result.most_asked_again:
        result.problems.append(f"{result.service['answered_twice']} names were looked up twice")
