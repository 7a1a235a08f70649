"""`rowmill systems companies`: resolve, process, review, mappings, targets, serve, work, migrate."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rowmill.systems import commands
from rowmill.systems.commands import (
    Exit,
    FormatOption,
    GraceOption,
    JsonOption,
    LevelOption,
    LogFormat,
    UrlOption,
    UsageError,
    emit,
    say,
    start_log,
    table,
)
from rowmill_systems.companies.commands import mappings, reviewing, targets
from rowmill_systems.companies.commands.loading import (
    LARGEST_ID,
    NAME,
    DelimiterOption,
    FileOption,
    ProvidersOption,
    check_file,
    load,
    prepared,
    run,
    usage_errors,
)

if TYPE_CHECKING:
    from fastapi import FastAPI

    from rowmill_systems.companies.service import LookupRun

app = typer.Typer(
    no_args_is_help=True,
    help="Companies: names are resolved to ids, at once where they are known, otherwise in the background.",
)


ExecuteOption = Annotated[bool, typer.Option("--execute", help="Do it. Without this, nothing is changed.")]


def migrate(database_url: UrlOption = None, json: JsonOption = False) -> None:
    """Make the tables of companies, or bring them to this version. Requests that are there already become a queue.

    \b
    Example:
      rowmill systems companies migrate --database-url postgresql://localhost/warehouse
    """
    with usage_errors():
        commands.migrate(load(database_url), json)


def serve(
    host: commands.HostOption = "127.0.0.1",
    port: commands.PortOption = 8000,
    name: commands.NameOption = None,
    with_worker: Annotated[bool, typer.Option("--with-worker", help="Look names up too, in this process.")] = False,
    database_url: UrlOption = None,
    providers: ProvidersOption = None,
    companies_file: FileOption = None,
    log_level: LevelOption = None,
    log_format: FormatOption = LogFormat.TEXT,
) -> None:
    """Serve the API (/openapi.json) and the pages: names by rung, the queue, names to decide.

    It has no users of its own: put a proxy before it that knows who may see what.

    \b
    Example:
      rowmill systems companies serve --with-worker --companies-file gleif.csv
    """
    companies = load(database_url, providers, companies_file)
    if with_worker:
        check_file(companies)

    def build(hosts: Sequence[str]) -> "FastAPI":
        from rowmill_systems.companies.web.app import create_app

        return create_app(companies, hosts=hosts)

    with usage_errors():
        commands.serve(
            companies, NAME, build, host=host, port=port, names=name, with_worker=with_worker,
            log_level=log_level, log_format=log_format,
        )  # fmt: skip


def work(
    processes: commands.ProcessesOption = 1,
    grace: GraceOption = None,
    database_url: UrlOption = None,
    providers: ProvidersOption = None,
    companies_file: FileOption = None,
    log_level: LevelOption = None,
    log_format: FormatOption = LogFormat.TEXT,
    lifeline: commands.LifelineOption = False,
) -> None:
    """Look names up until told to stop: finish within the grace period, give the rest back. Twice: leave at once.

    Instead of this, an orchestrator may run the queue from time to time: see `process`.

    \b
    Example:
      WDH_EQC_BASE_URL=https://eqc.example.org WDH_EQC_TOKEN=… rowmill systems companies work
    """
    options = {
        "--database-url": commands.given_url(database_url),
        "--providers": providers,
        "--companies-file": companies_file,
    }
    companies = load(database_url, providers, companies_file)
    check_file(companies)
    with usage_errors():
        commands.work(
            companies, NAME, processes=processes, grace=grace,
            log_level=log_level, log_format=log_format, lifeline=lifeline, options=options,
        )  # fmt: skip


def resolve(
    file: Annotated[
        Path, typer.Argument(metavar="FILE.csv", help="CSV with names of columns in its first line; - is stdin.")
    ],
    column: Annotated[str, typer.Option("--column", "-c", metavar="COLUMN", help="Where the names are.")],
    plan_code: Annotated[
        str | None, typer.Option("--plan-code", metavar="COLUMN", help="Where plan codes are.")
    ] = None,
    account_number: Annotated[
        str | None, typer.Option("--account-number", metavar="COLUMN", help="Where account numbers are.")
    ] = None,
    account_name: Annotated[
        str | None, typer.Option("--account-name", metavar="COLUMN", help="Where names of accounts are.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "--output", "-o", metavar="FILE", help="Where to write. Otherwise stdout.")
    ] = None,
    process: Annotated[
        bool,
        typer.Option("--process", help="Look up what nobody knows yet, as far as the budget goes, before writing."),
    ] = False,
    delimiter: DelimiterOption = None,
    database_url: UrlOption = None,
    providers: ProvidersOption = None,
    companies_file: FileOption = None,
    json: Annotated[bool, typer.Option("--json", help="Print the counts as JSON, to stderr without --out.")] = False,
) -> None:
    """Give every name of a CSV file a company id: a real one, or a temporary one that is replaced later.

    The file's own columns stay as they are. After them come company_id, company_rung (who answered: plan_code, …,
    cache, the provider, queue, none), company_confidence and company_reason. Names that nobody knows wait in the
    queue; the next run of `process` looks them up, and the same command then writes the real ids.

    \b
    Example:
      rowmill systems companies resolve policies.csv --column customer --out resolved.csv
      rowmill systems companies resolve - -c name --process --companies-file gleif.csv < names.csv
    """
    from rowmill_systems.companies.commands.resolving import ResolveOptions, resolve_file

    start_log(None, LogFormat.TEXT, "error")
    options = ResolveOptions(
        file=None if str(file) == "-" else file,
        column=column,
        plan_code=plan_code,
        account_number=account_number,
        account_name=account_name,
        out=None if out is None or str(out) == "-" else out,
        process=process,
        delimiter=delimiter,
        as_json=json,
    )
    companies = load(database_url, providers, companies_file)
    check_file(companies)
    resolve_file(prepared(companies), options)


def process(
    execute: Annotated[bool, typer.Option("--execute", help="Do it. Otherwise only say what would be done.")] = False,
    batch_size: Annotated[
        int | None, typer.Option("--batch-size", metavar="N", min=1, help="Otherwise WDH_ENRICHMENT_BATCH_SIZE.")
    ] = None,
    database_url: UrlOption = None,
    providers: ProvidersOption = None,
    companies_file: FileOption = None,
    log_level: LevelOption = None,
    log_format: FormatOption = LogFormat.TEXT,
    json: JsonOption = False,
) -> None:
    """Look up what is due in the queue, once: a plan by default, for real with --execute.

    Exits with 5 if requests failed for good in this run.

    \b
    Example:
      rowmill systems companies process
      rowmill systems companies process --execute --batch-size 500
    """
    from rowmill_systems.companies.service import CompanyEnrichmentService

    companies = load(database_url, providers, companies_file)
    start_log(log_level, log_format, "warning")
    if execute:
        check_file(companies)
    service = CompanyEnrichmentService(prepared(companies))
    with usage_errors():
        done = service.process_lookup_queue(batch_size, plan_only=not execute)
    emit(asdict(done), json, partial(_tell, done))
    raise typer.Exit(Exit.FINDINGS if done.failed else Exit.OK)


def stats(
    days: Annotated[int, typer.Option("--days", metavar="N", min=1, max=366, help="Of names by rung.")] = 14,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Show the queue, names to decide, and how many names each rung answered.

    \b
    Example:
      rowmill systems companies stats --days 30
    """
    from rowmill_systems.companies.overview import read_overview

    companies = prepared(load(database_url))
    found = run(companies, lambda connection: read_overview(connection, companies, days=days))

    def tell() -> None:
        counts = [("pending", found.pending), ("processing", found.processing), ("done", found.done),
                  ("failed", found.failed), ("to decide", found.open_reviews)]  # fmt: skip
        table(["requests", "number"], [(name, f"{number:,}") for name, number in counts])
        if not found.exact:
            say("the numbers of finished requests are estimates: the table is big")
        if found.by_rung:
            print()
            rows = [(each.rung, f"{each.today:,}", f"{each.names:,}") for each in found.by_rung]
            table(["rung", "today", f"{days} days"], rows)

    emit(found.as_dict(), json, tell)


def requeue(
    request: Annotated[
        list[int] | None, typer.Argument(metavar="ID…", min=1, max=LARGEST_ID, help="Ids of requests.")
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="All that failed.")] = False,
    error: Annotated[
        str | None, typer.Option("--error", metavar="CODE", help="Only those that failed with this code.")
    ] = None,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Put failed requests back, with no attempts counted: by id, all, or those with an error code.

    \b
    Example:
      rowmill systems companies requeue --failed
      rowmill systems companies requeue --error server_error
      rowmill systems companies requeue 17 18
    """
    keys = request or []
    failed = failed or (error is not None and not keys)
    if not keys and not failed:
        raise UsageError("say which: ids of requests, --failed, or --error CODE")
    companies = prepared(load(database_url))
    which: dict[str, Any] = ({"state": "failed"} if failed else {}) | ({"error_code": error} if error else {})
    with usage_errors():
        back = companies.queue.requeue_sync(*keys, **which)
    emit({"requeued": back}, json, f"{back:,} are pending again")


def export(
    out: Annotated[
        Path | None, typer.Option("--out", "--output", "-o", metavar="FILE.csv", help="Otherwise stdout.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="ISO 8601: only what was resolved since then.")
    ] = None,
    database_url: UrlOption = None,
) -> None:
    """Write what was resolved as CSV, with the time and the source.

    \b
    Example:
      rowmill systems companies export --since 2026-01-01 --out resolved.csv
    """
    from rowmill_systems.companies.commands.exporting import export_file

    companies = prepared(load(database_url))
    with usage_errors(str(out or "standard output")):
        export_file(companies, out, since)


def rotate_salt(
    execute: ExecuteOption = False,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Rewrite temporary ids after a change of the salt: in requests and in target tables. Without --execute, a plan.

    Set WDH_TEMP_ID_SALT to the new salt and WDH_TEMP_ID_SALT_PREVIOUS to the old one. Interrupted, the same command
    goes on where it was. Ids of both salts are recognised meanwhile: keep the old one until a pass finds 0 rows.

    \b
    Example:
      WDH_TEMP_ID_SALT_PREVIOUS=… WDH_TEMP_ID_SALT=… rowmill systems companies rotate-salt --execute
    """
    from rowmill_systems.companies.commands.rotating import rotate

    companies = prepared(load(database_url), same_salt=False)
    with usage_errors():
        found, text = rotate(companies, execute=execute)
    emit(found, json, text)


def renormalize(
    execute: ExecuteOption = False,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Make the normal forms of requests anew that a table had before `migrate`. Without --execute, a plan.

    Requests that turn out to be for one name are merged: one of them stays open. Interrupted, the same command goes on
    where it was.

    \b
    Example:
      rowmill systems companies renormalize --execute
    """
    from rowmill_systems.companies.commands.rotating import make_forms_anew

    companies = prepared(load(database_url))
    with usage_errors():
        found, text = make_forms_anew(companies, execute=execute)
    emit(found, json, text)


def _tell(done: "LookupRun") -> None:
    if done.plan_only:
        print(
            f"plan: {done.due:,} requests are due, {done.stale:,} were left by an interrupted run. Nothing was changed"
        )
        print("to do it: rowmill systems companies process --execute")
    else:
        parts = [
            (done.done, "resolved"), (done.no_match, "known to nobody"), (done.unsure, "to decide"),
            (done.retried, "tried again later"), (done.failed, "failed"), (done.postponed, "postponed"),
        ]  # fmt: skip
        what = ", ".join(f"{number:,} {words}" for number, words in parts if number) or "nothing was due"
        print(f"{what}; {done.calls:,} calls, {done.rows_written:,} rows of targets written")
        if done.stop_reason:
            print(f"it ended before the queue was empty: {done.stop_reason}")
    print(
        f"queue: {done.pending_count:,} pending, {done.processing_count:,} processing, {done.done_count:,} done, "
        f"{done.failed_count:,} failed"
    )


for command in (resolve, process, stats, requeue, export, rotate_salt, renormalize, serve, work, migrate):
    app.command()(command)
app.add_typer(reviewing.app, name="review")
app.add_typer(mappings.app, name="mappings")
app.add_typer(targets.app, name="targets")
