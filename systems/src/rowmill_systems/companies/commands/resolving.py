"""`rowmill systems companies resolve`: give every name of a file an id."""

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from json import dumps
from pathlib import Path

from rowmill.systems.commands import close_stdout, emit, progress, say
from rowmill_systems.companies.commands.loading import usage_errors
from rowmill_systems.companies.companies import Companies
from rowmill_systems.companies.lookup import CallBudget, ProviderChain
from rowmill_systems.companies.mappings import batched
from rowmill_systems.companies.prefetching import prefetch_answers
from rowmill_systems.companies.resolver import CompanyIdResolver, CompanyRow, Resolution
from rowmill_systems.companies.service import CompanyEnrichmentService
from rowmill_systems.parts.sheets import Row, Sheet, place_of
from rowmill_systems.parts.sheets.opening import delimiter_of, opened
from rowmill_systems.parts.sheets.target import check_target, written
from rowmill_systems.parts.values import harmless

ADDED = ("company_id", "company_rung", "company_confidence", "company_reason")
TEMPORARY, NONE = "temporary", "none"
"""How rows with a temporary id and rows without a name are counted; others by their rung."""
ROWS = 5000
"""Rows that one transaction resolves."""


@dataclass(frozen=True, slots=True)
class ResolveOptions:
    """The options of the command."""

    file: Path | None
    """None: standard input."""
    column: str
    plan_code: str | None
    account_number: str | None
    account_name: str | None
    out: Path | None
    process: bool
    delimiter: str | None
    as_json: bool


class NameColumns:
    """Where in a sheet a name is, and what else is known of it."""

    def __init__(self, header: Sequence[str], wanted: ResolveOptions) -> None:
        self._name = place_of(header, wanted.column)
        others = (wanted.plan_code, wanted.account_number, wanted.account_name)
        self._others = [None if column is None else place_of(header, column) for column in others]

    def row(self, row: Row) -> CompanyRow:
        others = [None if place is None else row.cells[place] or None for place in self._others]
        return CompanyRow(row.cells[self._name], *others)


def resolve_file(companies: Companies, wanted: ResolveOptions) -> None:
    """Resolve the names of a file, and write it with their ids."""
    with usage_errors(str(wanted.file or "standard input")), opened(wanted.file) as file:
        if wanted.out is not None:
            check_target(wanted.out, wanted.file)
        sheet = Sheet(file, delimiter_of(wanted.delimiter))
        columns = NameColumns(sheet.header, wanted)
        number = sum(1 for _ in sheet.rows())
        if wanted.process:
            with progress("Looking at names", number) as seen:
                for done, _, _ in _resolved(companies, sheet, columns, None):
                    seen(done)
            _process(companies)
        run = companies.begin_run()
        try:
            counts = _write(companies, sheet, columns, run.chain if run.chain.providers else None, wanted, number)
        finally:
            run.close()
    _sum_up(counts, number, wanted)


def _process(companies: Companies) -> None:
    with progress("Looking names up"):
        run = CompanyEnrichmentService(companies).process_lookup_queue()
    failed = f", {run.failed + run.retried:,} failed" if run.failed or run.retried else ""
    say(f"looked up: {run.done:,} resolved, {run.no_match:,} known to nobody, {run.unsure:,} to decide{failed}")
    if run.stop_reason:
        say(f"not all were looked up: {run.stop_reason}. The same command goes on from there")


def _write(
    companies: Companies,
    sheet: Sheet,
    columns: NameColumns,
    chain: ProviderChain | None,
    wanted: ResolveOptions,
    number: int,
) -> Counter[str]:
    counts: Counter[str] = Counter()
    with (
        progress("Resolving", number) as seen,
        _reader_may_leave(),
        written(wanted.out, mark=sheet.from_spreadsheet) as out,
    ):
        writer = csv.writer(out, delimiter=sheet.delimiter, lineterminator=sheet.line_end)
        writer.writerow([*sheet.header, *_added(sheet.header)])
        for done, rows, answers in _resolved(companies, sheet, columns, chain):
            for row, answer in zip(rows, answers, strict=True):
                counts[TEMPORARY if answer.temporary else answer.rung] += 1
                writer.writerow([*row.cells, *_cells(answer)])
            seen(done)
        sheet.check_unchanged()
    return counts


def _resolved(
    companies: Companies, sheet: Sheet, columns: NameColumns, chain: ProviderChain | None
) -> Iterator[tuple[int, list[Row], list[Resolution]]]:
    """Yield rows with their answers, some thousand at a time, each in a transaction of its own."""
    done, budget = 0, CallBudget(companies.settings.eqc_sync_budget)
    for rows in batched(sheet.rows(), ROWS):
        given = [columns.row(row) for row in rows]
        # Before the transaction: on SQLite nobody else could write while providers are asked.
        ahead = None if chain is None else prefetch_answers(companies, given, chain, budget)
        with companies.engine.begin() as connection:
            resolver = CompanyIdResolver(connection, companies.settings, salt=companies.salts.current, prefetched=ahead)
            answers = resolver.resolve(given)
        done += len(rows)
        yield done, rows, answers


def _cells(answer: Resolution) -> list[str]:
    sure = "" if answer.confidence is None else f"{answer.confidence:.4f}"
    return [harmless(answer.company_id or ""), answer.rung, sure, answer.reason]


def _added(header: Sequence[str]) -> list[str]:
    """Return names for the added columns that the file does not have."""
    names: list[str] = []
    for name in ADDED:
        while name in header or name in names:
            name = f"{name}_2"
        names.append(name)
    return names


def _sum_up(counts: Counter[str], number: int, wanted: ResolveOptions) -> None:
    found = {"rows": number, "rungs": dict(counts.most_common())}
    if wanted.as_json:
        if wanted.out is None:
            say(dumps(found))
        else:
            emit(found, True)
        return
    by = ", ".join(f"{names:,} by {rung}" for rung, names in counts.most_common() if rung not in (TEMPORARY, NONE))
    say(
        f"{number:,} rows: {by or 'none known'}; {counts[TEMPORARY]:,} with a temporary id, "
        f"{counts[NONE]:,} without a name"
    )


@contextmanager
def _reader_may_leave() -> Iterator[None]:
    """Ignore that the reader of our output has closed it: `… | head`."""
    try:
        yield
    except BrokenPipeError:
        close_stdout()
