"""A run of the queue, its log, and the command that starts it."""

import json
import logging
import sys
import types
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

import rowmill as rm
from rowmill.systems.commands import Exit
from rowmill_systems.companies import jobs
from rowmill_systems.companies.companies import Companies
from rowmill_systems.companies.lookup import CallBudget
from rowmill_systems.companies.lookup_queue import LookupQueue
from rowmill_systems.companies.providers.port import BudgetSpent
from rowmill_systems.companies.runs import BatchBudget
from rowmill_systems.companies.service import CompanyEnrichmentService
from systems.tests.companies.fake_providers import ScriptedProvider
from systems.tests.companies.harness import SALT, companies_on, settings_for, sync_companies


def enqueue_on(companies: Companies, name: str, connection: sa.Connection) -> None:
    LookupQueue(connection, companies.settings).enqueue(name)


def enqueue(companies: Companies, *names: str) -> None:
    with companies.engine.begin() as connection:
        LookupQueue(connection, companies.settings).enqueue_many(names)


def test_the_counts_are_fields_of_the_log_and_no_name_is(database_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """C9."""
    caplog.set_level(logging.INFO)
    answers = {"Acme Secret": "C-1", "Bolt Secret": rm.TransientError("Bolt Secret is away", code="eqc_503")}
    with sync_companies(database_url, answers, enrichment_queue_warning_threshold=0) as (companies, _):
        enqueue(companies, *answers)
        CompanyEnrichmentService(companies).process_lookup_queue()
    [record] = [each for each in caplog.records if "Enrichment queue processed" in each.getMessage()]
    fields = vars(record)
    assert [fields[name] for name in ("pending", "processing", "done", "failed")] == [1, 0, 1, 0]
    [warning] = [each for each in caplog.records if "Enrichment queue backlog high" in each.getMessage()]
    assert (warning.levelno, vars(warning)["pending"], vars(warning)["threshold"]) == (logging.WARNING, 1, 0)
    assert "Secret" not in caplog.text
    assert SALT not in caplog.text


def test_a_backlog_at_the_threshold_is_not_high(database_url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with sync_companies(database_url, enrichment_queue_warning_threshold=2) as (companies, _):
        enqueue(companies, "Acme", "Bolt")
        assert not CompanyEnrichmentService(companies).process_lookup_queue(plan_only=True).backlog_high
        enqueue(companies, "Cog")
        assert CompanyEnrichmentService(companies).process_lookup_queue(plan_only=True).backlog_high
    assert [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING] == [
        "Enrichment queue backlog high pending=3 threshold=2"
    ]


def test_structlog_gets_the_fields_if_it_is_chosen(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """C9."""
    told: list[tuple[str, dict[str, Any]]] = []

    class FakeLogger:
        def info(self, event: str, **fields: Any) -> None:
            told.append((event, fields))

        warning = info

    fake = types.ModuleType("structlog")
    vars(fake)["get_logger"] = lambda name: FakeLogger()
    monkeypatch.setitem(sys.modules, "structlog", fake)
    with sync_companies(sqlite_url, structlog=True) as (companies, _):
        CompanyEnrichmentService(companies).process_lookup_queue()
    assert told[0][0] == "Enrichment queue processed"
    assert {"pending", "processing", "done", "failed"} <= told[0][1].keys()


def test_structlog_that_is_not_installed_is_said_at_once(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "structlog", None)
    with pytest.raises(rm.errors.BadRequest, match="pip install structlog"):
        Companies(settings_for(sqlite_url, structlog=True))


async def test_inside_an_event_loop_the_async_form_is_named(sqlite_url: str) -> None:
    async with companies_on(sqlite_url) as harness:
        with pytest.raises(rm.errors.BadRequest, match=r"await service\.process_queue"):
            harness.service.process_lookup_queue()


async def test_runs_follow_one_another_on_one_object(database_url: str) -> None:
    opened: list[ScriptedProvider] = []

    def open_providers() -> list[ScriptedProvider]:
        opened.append(ScriptedProvider({"Acme": "C-1", "Bolt": "C-2"}))
        return opened[-1:]

    companies = Companies(settings_for(database_url), providers=open_providers)
    service = CompanyEnrichmentService(companies)
    for name in ("Acme", "Bolt"):
        await companies.mill.run(partial(enqueue_on, companies, name))
        assert (await service.process_queue(batch_size=1)).done == 1
    assert [provider.closed for provider in opened] == [1, 1], "each run opens its own, and closes it"


@pytest.mark.parametrize("size", [0, -1])
def test_a_batch_of_nothing_is_refused(sqlite_url: str, size: int) -> None:
    with sync_companies(sqlite_url) as (companies, _), pytest.raises(rm.errors.BadRequest, match="1 or more"):
        CompanyEnrichmentService(companies).process_lookup_queue(size)


def test_a_cancelled_batch_makes_no_further_call() -> None:
    run = CallBudget(5)
    batch = BatchBudget(run)
    batch.spend()
    assert (batch.spent, batch.left, run.spent) == (1, 4, 1)
    batch.cancelled = True
    with pytest.raises(BudgetSpent):
        batch.spend()
    assert (run.spent, batch.left) == (1, 0)


@pytest.fixture
def job(database_url: str, monkeypatch: pytest.MonkeyPatch) -> ScriptedProvider:
    """The environment of a job, whose provider is the one that is returned."""
    provider = ScriptedProvider({"Acme": "C-1"})
    monkeypatch.setenv("WDH_DATABASE_URL", database_url)
    monkeypatch.setenv("WDH_TEMP_ID_SALT", SALT)
    monkeypatch.setattr("rowmill_systems.companies.companies.open_providers", lambda settings: [provider])
    return provider


def test_the_job_plans_and_executes(
    database_url: str, job: ScriptedProvider, capsys: pytest.CaptureFixture[str]
) -> None:
    """C11: `python -m rowmill_systems.companies.jobs --queue --execute`."""
    with sync_companies(database_url) as (companies, _):
        enqueue(companies, "Acme", "Nobody")
        assert jobs.main(["--queue"]) == Exit.OK
        assert "would take 2 requests" in capsys.readouterr().out
        assert job.asked == []
        assert jobs.main(["--queue", "--execute", "--json", "--batch-size", "1"]) == Exit.OK
        found = json.loads(capsys.readouterr().out)
        assert (found["done"], found["no_match"], found["done_count"]) == (1, 1, 2)
        assert jobs.main(["--queue", "--execute"]) == Exit.OK
        assert "0 tried" in capsys.readouterr().out


def test_the_job_puts_failed_requests_back(
    database_url: str, job: ScriptedProvider, capsys: pytest.CaptureFixture[str]
) -> None:
    """C14."""
    job.answers = {"Acme": rm.PermanentError(code="one"), "Bolt": rm.PermanentError(code="two")}
    with sync_companies(database_url) as (companies, _):
        enqueue(companies, "Acme", "Bolt")
        jobs.main(["--queue", "--execute"])
        assert jobs.main(["--requeue-failed", "--error-code", "one"]) == Exit.OK
        assert "1 requests would be put back" in capsys.readouterr().out
        assert jobs.main(["--requeue-failed", "--error-code", "one", "--execute", "--json"]) == Exit.OK
        assert json.loads(capsys.readouterr().out) == {"requeued": 1}


def test_the_job_rotates_the_salt(
    database_url: str, job: ScriptedProvider, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with sync_companies(database_url) as (companies, _):
        enqueue(companies, "Acme")
        monkeypatch.setenv("WDH_TEMP_ID_SALT", "new")
        assert jobs.main(["--queue", "--execute"]) == Exit.USAGE
        assert "rotate-salt --execute" in capsys.readouterr().err
        monkeypatch.setenv("WDH_TEMP_ID_SALT_PREVIOUS", SALT)
        assert jobs.main(["--rotate-salt"]) == Exit.USAGE
        assert jobs.main(["--rotate-salt", "--execute"]) == Exit.OK
        assert "1 requests and 0 rows" in capsys.readouterr().out
        monkeypatch.delenv("WDH_TEMP_ID_SALT_PREVIOUS")
        assert jobs.main(["--queue", "--execute"]) == Exit.OK
        with companies.engine.connect() as connection:
            assert connection.scalar(sa.select(companies.tables.requests.c.status)) == "done"


@pytest.mark.parametrize(
    ("arguments", "url", "code"),
    [
        ([], None, Exit.USAGE),
        (["--queue", "--batch-size", "many"], None, Exit.USAGE),
        (["--queue", "--execute", "--batch-size", "0"], None, Exit.USAGE),
        (["--queue"], "postgresql://nobody@127.0.0.1:1/none", Exit.UNREACHABLE),
        (["--queue"], "nonsense", Exit.UNREACHABLE),
    ],
)
def test_the_job_says_what_is_wrong_by_its_exit_code(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, arguments: list[str], url: str | None, code: int
) -> None:
    monkeypatch.setenv("WDH_DATABASE_URL", url or sqlite_url)
    monkeypatch.setenv("WDH_TEMP_ID_SALT", SALT)
    assert jobs.main(arguments) == code


@pytest.mark.empty_database
def test_the_job_on_a_server_without_tables_names_the_command(
    pg_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WDH_DATABASE_URL", pg_url)
    monkeypatch.setenv("WDH_TEMP_ID_SALT", SALT)
    assert jobs.main(["--queue"]) == Exit.SCHEMA
    assert "rowmill systems companies migrate" in capsys.readouterr().err
