"""Find the rows of targets that still have a temporary id although their names have a company.

A sweep looks at two things. Names that were resolved since the last one: rows that were locked, or too many for one
transaction. And the next part of the column itself, from where the last sweep stopped: rows that a pipeline inserted
long after the answer, and names that got their company by a mapping. Over several sweeps all of the column is read.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from rowmill_systems.companies.answered_requests import mark_answered
from rowmill_systems.companies.companies import Companies
from rowmill_systems.companies.known_answers import known_answers
from rowmill_systems.companies.lookup import LookupOutcome
from rowmill_systems.companies.mappings import CompanyMappingRepository, batched
from rowmill_systems.companies.models import INTERNAL, CompaniesTables
from rowmill_systems.companies.salts import read_meta, write_meta
from rowmill_systems.companies.temp_ids import is_temp_id
from rowmill_systems.companies.write_back import (
    ROWS,
    ResolvedName,
    WriteBackReport,
    note_failure,
    note_target,
    parse_table,
    position_key,
    registered_targets,
    write_back,
)
from rowmill_systems.parts.clock import now
from rowmill_systems.parts.database import in_utc

PAGE = 500
"""Names that one transaction looks at."""
LATE = timedelta(days=1)
"""How far before the last sweep names are looked at again: transactions may take that long."""
ROWS_READ = 20_000
"""Rows with temporary ids of a target that one sweep reads."""
BEFORE_FIRST, AFTER_LAST = "IN", "IO"
"""All temporary ids are between the two, in whatever order a column has: some collations ignore the underscore."""
DECIDED = ("done", "failed")


@dataclass(frozen=True, slots=True)
class SweepReport:
    """What a sweep did."""

    targets: int = 0
    rows: int = 0
    failed: tuple[str, ...] = ()
    """Targets that could not be written, or refused some ids."""


def sweep_targets(
    companies: Companies, *, everything: bool = False, page: int = PAGE, rows_read: int = ROWS_READ
) -> SweepReport:
    """Replace temporary ids whose names have a company by now, in transactions of their own.

    A target that was never swept is held against every resolved request, the others against those of the time since
    their last sweep, and a day before it. Of each column, up to `rows_read` rows with temporary ids are read, from
    where the last sweep stopped. `everything` looks at every resolved request, and at whole columns from the beginning;
    after a kill within the last day, from where it was.
    """
    engine, tables = companies.engine, companies.tables
    with engine.connect() as connection:
        found = registered_targets(connection, tables)
    rows, failed = 0, dict[str, None]()
    for target in found:
        since = None if everything or target.swept_at is None else in_utc(target.swept_at) - LATE
        with engine.connect() as connection:
            began = connection.scalar(sa.select(now(engine.dialect.name)))
        reports = [_sweep_resolved(companies, target, since, page)]
        if reports[0].failed == reports[0].refused:
            reports.append(_sweep_column(companies, target, page, rows_read, began if everything else None))
        rows += sum(report.rows for report in reports)
        failed |= dict.fromkeys(name for report in reports for name in report.failed)
        if all(report.failed == report.refused for report in reports):
            # Ids that it refused are met again when its column is read.
            values = {} if any(report.failed for report in reports) else {"last_error": None}
            with engine.begin() as connection:
                note_target(connection, tables, target.id, swept_at=began, **values)
    return SweepReport(len(found), rows, tuple(failed))


def _sweep_resolved(companies: Companies, target: Any, since: datetime | None, page: int) -> WriteBackReport:
    total = WriteBackReport()
    for resolved in _resolved_pages(companies.engine, companies.tables, since, page):
        replacements: dict[str, str] = {}
        for request in resolved:  # the newest first: of two answers for a name, that one holds
            for old in companies.salts.temp_ids(request.normalized_name, request.temp_id):
                replacements.setdefault(old, request.resolved_company_id)
        total = _added(total, _write_all(companies, target, replacements))
    return total


def _write_all(companies: Companies, target: Any, replacements: Mapping[str, str]) -> WriteBackReport:
    """Replace ids in a target, as many rows as there are, in transactions of `ROWS` rows."""
    total = WriteBackReport()
    while True:
        with companies.engine.begin() as connection:
            report = write_back(connection, companies.tables, replacements, companies.log, targets=[target])
        total = _added(total, report)
        if report.failed or report.rows < ROWS:
            return total


def _added(one: WriteBackReport, other: WriteBackReport) -> WriteBackReport:
    failed = tuple(dict.fromkeys(one.failed + other.failed))
    lost = {name for each in (one, other) for name in each.failed if name not in each.refused}
    return WriteBackReport(one.rows + other.rows, failed, tuple(name for name in failed if name not in lost))


# served by: ix_enrichment_requests_resolved
def _resolved_pages(
    engine: sa.Engine, tables: CompaniesTables, since: datetime | None, page: int
) -> Iterator[Sequence[Any]]:
    c, last = tables.requests.c, None
    at: sa.ColumnElement[Any] = c.finished_at
    if engine.dialect.name == "sqlite":
        # As the text that is stored: read and written again, a time without a fraction gets one, and is another text.
        at = sa.type_coerce(c.finished_at, sa.String)
    wanted = sa.select(c.id, at.label("at"), c.temp_id, c.normalized_name, c.resolved_company_id)
    wanted = wanted.where(c.resolved_company_id.is_not(None), c.finished_at.is_not(None))
    if since is not None:
        wanted = wanted.where(c.finished_at >= since)
    wanted = wanted.order_by(c.finished_at.desc(), c.id.desc()).limit(page)
    while True:
        further = wanted if last is None else wanted.where(sa.tuple_(at, c.id) < sa.tuple_(*last))
        with engine.connect() as connection:
            found = connection.execute(further).all()
        if found:
            yield found
        if len(found) < page:
            return
        last = (sa.literal(found[-1].at, at.type), sa.literal(found[-1].id))


def _sweep_column(
    companies: Companies, target: Any, page: int, rows_read: int, whole: datetime | None
) -> WriteBackReport:
    """Read the next part of a column, and replace the temporary ids whose names have a company. With `whole`, the time
    of now, read all of it."""
    total, key = WriteBackReport(), position_key(target.id, whole=whole is not None)
    while True:
        try:
            with companies.engine.connect() as connection:
                stored = read_meta(connection, companies.tables, key)
                whole, after = (None, stored or BEFORE_FIRST) if whole is None else _position_of_whole(stored, whole)
                ids, last = _ids_after(connection, target, after, rows_read)
        except sa.exc.DBAPIError as error:
            if error.connection_invalidated:
                raise
            with companies.engine.begin() as connection:
                note_failure(connection, companies.tables, target, error, companies.log)
            return _added(total, WriteBackReport(failed=(f"{target.table_name}.{target.column_name}",)))
        for some in batched(filter(is_temp_id, ids), page):
            report = _replace_known(companies, target, some)
            total = _added(total, report)
            if report.failed != report.refused:
                return total
        with companies.engine.begin() as connection:
            begun = "" if whole is None else f"{in_utc(whole).isoformat()} "
            write_meta(connection, companies.tables, key, None if last is None else f"{begun}{last}")
        if last is None or whole is None:
            return total


def _position_of_whole(stored: str | None, current: datetime) -> tuple[datetime, str]:
    """Return when the reading of a whole column began, and behind which id it goes on. One that was killed long ago is
    not gone on with: since then, names that it has passed may have got a company."""
    begun, _, after = (stored or "").partition(" ")
    if after and in_utc(current) - datetime.fromisoformat(begun) < LATE:
        return datetime.fromisoformat(begun), after
    return current, BEFORE_FIRST


# served by: your index on the column
def _ids_after(connection: sa.Connection, target: Any, after: str, rows_read: int) -> tuple[list[str], str | None]:
    """Return the distinct ids of the next rows of a column, and the last one if there may be more."""
    schema, name = parse_table(target.table_name)
    table = sa.table(name, sa.column(target.column_name, sa.Text), schema=schema)
    column = table.c[target.column_name]
    # By rows, not by distinct ids: a million rows of one name must not be read to find the next one.
    some = sa.select(column.label("id")).where(column > after, column < AFTER_LAST).order_by(column).limit(rows_read)
    rows = some.subquery()
    counted = sa.select(rows.c.id, sa.func.count()).group_by(rows.c.id).order_by(rows.c.id)
    found = [(str(each), number) for each, number in connection.execute(counted)]
    full = sum(number for _, number in found) >= rows_read
    return [each for each, _ in found], found[-1][0] if full else None


# served by: ix_enrichment_requests_temp_id, uq_company_mappings_alias
def _replace_known(companies: Companies, target: Any, ids: Sequence[str]) -> WriteBackReport:
    """Replace those of some temporary ids whose names have a company: by a request, or by a mapping that came later."""
    c, replacements, names = companies.tables.requests.c, dict[str, str](), dict[str, set[str]]()
    """Temporary ids by name: during a change of the salt it may have two."""
    settled = set[str]()
    wanted = sa.select(c.temp_id, c.normalized_name, c.status, c.resolved_company_id).where(c.temp_id.in_(ids))
    with companies.engine.begin() as connection:
        for request in connection.execute(wanted.order_by(c.finished_at.nulls_first(), c.id)):
            names.setdefault(request.normalized_name, set()).add(request.temp_id)
            if request.resolved_company_id is not None:
                replacements[request.temp_id] = request.resolved_company_id
                settled.add(request.normalized_name)
            elif request.status not in DECIDED:  # whoever takes it finds what is known
                settled.add(request.normalized_name)
        left = [name for name in names if name not in settled]
        known = known_answers(CompanyMappingRepository(connection, companies.settings), left) if left else {}
        for name, decision in sorted(known.items()):  # in one order: two sweeps do not lock each other out
            if decision.outcome is not LookupOutcome.ACCEPTED or decision.company_id is None:
                continue
            sure, by = 1.0 if decision.confidence is None else decision.confidence, decision.provider or INTERNAL
            # None of them if another sweep was first: it has called back for them.
            mine = mark_answered(connection, companies.tables, name, decision.company_id, by=by, confidence=sure)
            companies.call_back(
                connection,
                [
                    ResolvedName(row.id, row.raw_name, name, row.temp_id, decision.company_id, by, sure, None)
                    for row in mine
                ],
            )
            replacements |= dict.fromkeys(names[name], decision.company_id)
    return _write_all(companies, target, replacements) if replacements else WriteBackReport()
