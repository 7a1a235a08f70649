"""`python -m rowmill_systems.companies.jobs --queue --execute`: process the queue now.

Without `--execute` it changes nothing, and says what it would do. Exit codes are those of `rowmill`: 0 ok, 1 failed,
2 usage, 3 database unreachable, 4 tables missing or of another version, 130 interrupted.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

import rowmill as rm
from rowmill.systems import commands
from rowmill.systems.commands import Exit, LogFormat, UsageError, emit, say, start_log
from rowmill_systems.companies.companies import Companies
from rowmill_systems.companies.rotation import rotate_salt
from rowmill_systems.companies.service import CompanyEnrichmentService
from rowmill_systems.companies.settings import CompaniesSettings

NAME = "companies"


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m rowmill_systems.companies.jobs", description="Process requests for companies of names."
    )
    what = made.add_mutually_exclusive_group(required=True)
    what.add_argument("--queue", action="store_true", help="answer the requests that are due")
    what.add_argument("--requeue-failed", action="store_true", help="put failed requests back, attempts at zero")
    what.add_argument("--rotate-salt", action="store_true", help="rewrite temporary ids with the new salt; resumable")
    made.add_argument("--execute", action="store_true", help="do it; otherwise only say what would be done")
    made.add_argument("--batch-size", type=int, metavar="N", help="requests at a time")
    made.add_argument("--error-code", metavar="CODE", help="with --requeue-failed: only those that failed with it")
    made.add_argument("--database-url", metavar="URL", help="otherwise WDH_DATABASE_URL or DATABASE_URL")
    made.add_argument("--json", action="store_true", help="print the result as JSON")
    made.add_argument("--log-level", metavar="LEVEL")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a job. Return the exit code."""
    try:
        given = parser().parse_args(arguments)
    except SystemExit as error:
        return int(error.code or 0)
    try:
        start_log(given.log_level, LogFormat.TEXT, "warning" if given.json else "info")
        settings = commands.settings_from(CompaniesSettings, database_url=given.database_url)
        companies = Companies(settings)
        try:
            run(companies, given)
        finally:
            companies.engine.dispose()
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except (rm.RowmillError, sa.exc.DBAPIError, OSError) as error:
        code, text = explain(error)
        say(f"companies: {text}")
        return code
    return Exit.OK


def explain(error: Exception) -> tuple[Exit, str]:
    """Return the exit code of an error, and what to say. What a database says may have values of rows in it."""
    match error:
        case rm.errors.BadRequest():
            return Exit.USAGE, str(error)
        case rm.errors.DatabaseUnreachable():
            return Exit.UNREACHABLE, str(error)
        case rm.errors.SchemaMismatch():
            return Exit.SCHEMA, str(error)
        case rm.RowmillError():
            return Exit.FAILED, str(error)
        case sa.exc.OperationalError():
            return Exit.UNREACHABLE, "the database does not answer. Is it running, and is DATABASE_URL right?"
        case _:
            return Exit.FAILED, f"unexpected {type(error).__name__}"


def run(companies: Companies, given: Any) -> None:
    service = CompanyEnrichmentService(companies)
    companies.mill.run_blocking(lambda: commands.prepare(companies, NAME), "jobs", "await prepare()")
    if given.queue:
        found = service.process_lookup_queue(given.batch_size, plan_only=not given.execute)
        emit(found.as_dict(), given.json, described(found.as_dict()))
    elif given.requeue_failed:
        requeue(service, given)
    elif given.execute:
        report = rotate_salt(companies.engine, companies.salts, companies.log)
        emit(
            {"requests": report.requests, "rows": report.rows, "failed": list(report.failed)},
            given.json,
            f"{report.requests} requests and {report.rows} rows of targets have their new ids",
        )
        if report.failed:
            raise rm.RowmillError(f"targets that could not be written: {', '.join(report.failed)}. Rotate again")
    else:
        raise UsageError("--rotate-salt rewrites ids: say --execute. It can be stopped and started again at any time")


def requeue(service: CompanyEnrichmentService, given: Any) -> None:
    if given.execute:
        rows = service.requeue_failed(error_code=given.error_code)
        emit({"requeued": rows}, given.json, f"{rows} requests are pending again")
        return
    filters: dict[str, Any] = {"error_code": given.error_code} if given.error_code else {}
    found = service.companies.queue.list_sync(state="failed", limit=1000, **filters)
    more = " or more" if len(found) == 1000 else ""
    emit({"would_requeue": len(found)}, given.json, f"{len(found)}{more} requests would be put back: say --execute")


def described(run: dict[str, Any]) -> str:
    """Return a run in words."""
    depth = "pending {pending_count}, processing {processing_count}, done {done_count}, failed {failed_count}"
    if run["plan_only"]:
        return (
            "would take {due} requests, and put {stale} back first. Nothing was changed: say --execute\n" + depth
        ).format(**run)
    text = (
        "{processed} tried: {done} resolved, {no_match} unknown, {unsure} unsure, {retried} to retry, {failed} failed"
    )
    ended = "\nended early: {stop_reason}; {postponed} put back" if run["stop_reason"] else ""
    return f"{text}; {{calls}} calls, {{rows_written}} rows written{ended}\n{depth}".format(**run)


if __name__ == "__main__":
    sys.exit(main())
