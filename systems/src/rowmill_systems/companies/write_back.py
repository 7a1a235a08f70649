"""Replace temporary ids in the tables of a pipeline by real ones.

    with engine.begin() as connection:
        register_target(connection, "policies", "company_id")

From then on, each request that is resolved rewrites the rows of `policies` that carry its temporary id, in the
transaction that marks it done. `sweeping` finds what that could not reach: rows of a target that is registered later,
rows that were locked, and rows that a pipeline inserted after the answer had come.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

import rowmill as rm
from rowmill_systems.companies.answered_requests import answer_requests
from rowmill_systems.companies.logs import EventLog
from rowmill_systems.companies.models import CompaniesTables, tables_of
from rowmill_systems.companies.salts import Salts, write_meta
from rowmill_systems.companies.temp_ids import TEMP_ID_LETTERS, TEMP_ID_PREFIX
from rowmill_systems.parts.database import in_utc, upsert_into

ROWS = 5000
"""Rows of a target that one statement changes."""
REFUSED_VALUE = (sa.exc.IntegrityError, sa.exc.DataError)
"""Errors of a table that refuses an id: it is too long for the column, or there already where it must be unique."""
SHORTEST = len(TEMP_ID_PREFIX) + TEMP_ID_LETTERS
PART = r'(?:"(?:[^"]|"")+"|[^."]+)'
NAME = re.compile(rf"(?:({PART})\.)?({PART})")


@dataclass(frozen=True, slots=True)
class WriteBackTarget:
    """A column of a table whose temporary ids are replaced."""

    table: str
    schema: str | None
    column: str
    indexed: bool = True
    """Whether an index finds rows by this column. Without one, each batch reads the whole table."""

    @property
    def table_name(self) -> str:
        """The name as it is stored: with its schema, and with quotes where a part needs them."""
        return ".".join(_quoted(part) for part in (self.schema, self.table) if part is not None)


@dataclass(frozen=True, slots=True)
class WriteBackReport:
    """What one writing did."""

    rows: int = 0
    failed: tuple[str, ...] = ()
    """Targets that could not be written, as table.column. Their `last_error` has the code."""
    refused: tuple[str, ...] = ()
    """Those of them that refused some ids only, as one that is too long for the column: all others were written."""


@dataclass(frozen=True, slots=True)
class ResolvedName:
    """A name that has its company: what, when, and by whom."""

    request_id: int
    raw_name: str
    normalized_name: str
    temp_id: str | None
    company_id: str
    resolved_by: str | None
    confidence: float | None
    resolved_at: datetime | None


OnResolved = Callable[[sa.Connection, ResolvedName], None]
"""Called for each resolution, in the transaction that marks its request done. Keep it short. If it raises, its own
writes are undone, and the resolution stands."""


def register_target(connection: sa.Connection, table: str, column: str) -> WriteBackTarget:
    """Replace temporary ids in this column from now on. `table` may have a schema: `sales.policies`. Idempotent.

    Raises BadRequest that says what to do if there is no such table or column, or if it can't hold an id.
    """
    tables = tables_of(connection.dialect.name)
    target = checked_target(connection, tables, table, column)
    insert = upsert_into(connection, tables.targets).values(table_name=target.table_name, column_name=column)
    connection.execute(insert.on_conflict_do_nothing(index_elements=["table_name", "column_name"]))
    return target


def unregister_target(connection: sa.Connection, table: str, column: str) -> bool:
    """Leave a column alone from now on. Return whether it was registered."""
    tables = tables_of(connection.dialect.name)
    schema, name = parse_table(table)
    stored = WriteBackTarget(name, schema, column).table_name
    targets = tables.targets.c
    removed = connection.scalar(
        sa.delete(tables.targets)
        .where(targets.table_name == stored, targets.column_name == column)
        .returning(targets.id)
    )
    if removed is not None:
        for whole in (False, True):
            write_meta(connection, tables, position_key(removed, whole=whole), None)
    return removed is not None


def position_key(target: int, *, whole: bool = False) -> str:
    """Return the key in `company_meta` under which a sweep keeps how far it has read a target; with `whole`, a sweep of
    everything."""
    return f"target_{target}_{'whole_' * whole}position"


def checked_target(connection: sa.Connection, tables: CompaniesTables, table: str, column: str) -> WriteBackTarget:
    """Return the target, or raise BadRequest with the fix."""
    schema, name = parse_table(table)
    if name in {own.name for own in tables.metadata.tables.values()} and schema in (None, tables.requests.schema):
        raise rm.errors.BadRequest(f"{table} is a table of companies itself. Name a table of your pipeline")
    inspector = sa.inspect(connection)
    if schema is not None and schema not in inspector.get_schema_names():
        schemas = ", ".join(sorted(inspector.get_schema_names()))
        raise rm.errors.BadRequest(f"there is no schema {schema} in this database. There are: {schemas}")
    if not inspector.has_table(name, schema) or name in inspector.get_view_names(schema):
        there = ", ".join(sorted(inspector.get_table_names(schema))[:20]) or "none"
        raise rm.errors.BadRequest(
            f"there is no table {table} in this database. Tables here: {there}. One of another schema is named with "
            "it: schema.table"
        )
    columns = {each["name"]: each["type"] for each in inspector.get_columns(name, schema)}
    if column not in columns:
        raise rm.errors.BadRequest(
            f"table {table} has no column {column}. It has: {', '.join(columns)}. Register the one that holds company "
            "ids"
        )
    kind = columns[column]
    if not isinstance(kind, sa.String) or isinstance(kind, (sa.CHAR, sa.Enum)):
        raise rm.errors.BadRequest(
            f"column {column} of {table} holds {kind}, and a temporary id is text. Run: ALTER TABLE {table} ALTER "
            f"COLUMN {column} TYPE text"
        )
    if kind.length is not None and kind.length < SHORTEST:
        raise rm.errors.BadRequest(
            f"column {column} of {table} takes {kind.length} characters, and a temporary id has {SHORTEST}. Run: ALTER "
            f"TABLE {table} ALTER COLUMN {column} TYPE text"
        )
    leading: list[list[Any]] = [list(index["column_names"][:1]) for index in inspector.get_indexes(name, schema)]
    leading.append(inspector.get_pk_constraint(name, schema)["constrained_columns"][:1])
    leading += [each["column_names"][:1] for each in inspector.get_unique_constraints(name, schema)]
    return WriteBackTarget(name, schema, column, indexed=[column] in leading)


def parse_table(name: str) -> tuple[str | None, str]:
    """Return the schema and the name of a table. A part with a dot in it is written in double quotes."""
    found = NAME.fullmatch(name)
    if found is None:
        raise rm.errors.BadRequest(f'{name!r} is no name of a table. Write table, schema.table, or "a.b"."c.d"')
    schema, table = found.groups()
    return None if schema is None else _unquoted(schema), _unquoted(table)


def _unquoted(part: str) -> str:
    return part[1:-1].replace('""', '"') if part.startswith('"') else part


def _quoted(part: str) -> str:
    return '"' + part.replace('"', '""') + '"' if "." in part or '"' in part else part


def registered_targets(connection: sa.Connection, tables: CompaniesTables) -> list[Any]:
    """Return the rows of `company_targets`, in the order of registration."""
    return list(connection.execute(sa.select(tables.targets).order_by(tables.targets.c.id)))


def write_back(
    connection: sa.Connection,
    tables: CompaniesTables,
    replacements: Mapping[str, str],
    log: EventLog,
    *,
    targets: Sequence[Any] | None = None,
    wait: bool = False,
) -> WriteBackReport:
    """Replace ids in every registered target, up to `ROWS` rows of each. Idempotent.

    Rows that others have locked are passed over, unless told to `wait`: a sweep finds them. A target that can't be
    written is noted and logged, and holds up no other.
    """
    if not replacements:
        return WriteBackReport()
    rows, failed, refused = 0, list[str](), list[str]()
    for target in registered_targets(connection, tables) if targets is None else targets:
        schema, table = parse_table(target.table_name)
        name = f"{target.table_name}.{target.column_name}"
        try:
            with connection.begin_nested():
                written = replace_ids(
                    connection, WriteBackTarget(table, schema, target.column_name), replacements, wait=wait
                )
        except sa.exc.DBAPIError as error:
            if error.connection_invalidated:
                raise
            if isinstance(error, REFUSED_VALUE) and len(replacements) > 1:
                # One id that the table refuses must not keep the others from their rows.
                one_by_one = [
                    write_back(connection, tables, {old: new}, log, targets=[target], wait=wait)
                    for old, new in replacements.items()
                ]
                rows += sum(each.rows for each in one_by_one)
                failed += [name] * any(each.failed for each in one_by_one)
                refused += [name] * all(each.failed == each.refused for each in one_by_one if each.failed)
                continue
            failed.append(name)
            if isinstance(error, REFUSED_VALUE):
                refused.append(name)
            note_failure(connection, tables, target, error, log)
            continue
        if written:
            rows += written
            note_target(connection, tables, target.id, rows_written=tables.targets.c.rows_written + written)
    return WriteBackReport(rows, tuple(failed), tuple(each for each in refused if each in failed))


def note_failure(
    connection: sa.Connection, tables: CompaniesTables, target: Any, error: sa.exc.DBAPIError, log: EventLog
) -> None:
    """Keep and log the code of what is wrong with a target."""
    code = _code(error)
    log.warning("company_target_failed", target=f"{target.table_name}.{target.column_name}", code=code)
    note_target(connection, tables, target.id, last_error=code)


def note_target(connection: sa.Connection, tables: CompaniesTables, target: int, **values: Any) -> None:
    """Change the row of a target in `company_targets`."""
    connection.execute(sa.update(tables.targets).where(tables.targets.c.id == target).values(values))


def _code(error: sa.exc.DBAPIError) -> str:
    """Return what went wrong, without any value of a row."""
    state = getattr(error.orig, "sqlstate", None) or getattr(error.orig, "sqlite_errorname", None) or ""
    return f"{type(error).__name__} {state}".strip()


# served by: your index on the column
def replace_ids(
    connection: sa.Connection,
    target: WriteBackTarget,
    replacements: Mapping[str, str],
    *,
    most: int = ROWS,
    wait: bool = False,
) -> int:
    """Replace ids in one column, in up to `most` rows. Return how many. Locked rows are left, unless told to `wait`."""
    if connection.dialect.name == "postgresql":
        return _replace_on_postgres(connection, target, replacements, most, wait)
    return _replace_on_sqlite(connection, target, replacements, most)


def _replace_on_postgres(
    connection: sa.Connection, target: WriteBackTarget, replacements: Mapping[str, str], most: int, wait: bool
) -> int:
    table = sa.table(target.table, sa.column(target.column, sa.Text), schema=target.schema)
    column = table.c[target.column]
    old = sa.bindparam("old_ids", list(replacements), ARRAY(sa.Text))
    new = sa.bindparam("new_ids", list(replacements.values()), ARRAY(sa.Text))
    pairs = sa.func.unnest(old, new).table_valued("old_id", "new_id").render_derived(name="rowmill_pairs")
    place: sa.ColumnClause[Any] = sa.column("ctid", _selectable=table)
    chosen = sa.select(place).where(column == sa.any_(old)).limit(most).with_for_update(skip_locked=not wait)
    # As an array, which is made once: PostgreSQL may run a joined sub-query again, and change more than the limit.
    changed = connection.execute(
        sa.update(table)
        .where(column == pairs.c.old_id, place == sa.any_(sa.func.array(chosen.scalar_subquery())))
        .values({column: pairs.c.new_id})
    )
    return changed.rowcount


def _replace_on_sqlite(
    connection: sa.Connection, target: WriteBackTarget, replacements: Mapping[str, str], most: int
) -> int:
    quote = connection.dialect.identifier_preparer.quote_identifier
    table = ".".join(quote(part) for part in (target.schema, target.table) if part is not None)
    column = quote(target.column)
    pairs = "SELECT json_extract(value, '$[0]') AS old_id, json_extract(value, '$[1]') AS new_id FROM json_each(?)"
    given: list[Any] = [json.dumps(list(replacements.items()))]
    statement = (
        f"UPDATE {table} SET {column} = rowmill_pairs.new_id FROM ({pairs}) AS rowmill_pairs "  # noqa: S608
        f"WHERE {table}.{column} = rowmill_pairs.old_id"
    )
    if _has_row_numbers(connection, target):
        statement += (
            f" AND {table}._rowid_ IN (SELECT _rowid_ FROM {table} WHERE {column} IN "  # noqa: S608
            "(SELECT json_extract(value, '$[0]') FROM json_each(?)) LIMIT ?)"
        )
        given += [given[0], most]
    return connection.exec_driver_sql(statement, tuple(given)).rowcount


def _has_row_numbers(connection: sa.Connection, target: WriteBackTarget) -> bool:
    schema = connection.dialect.identifier_preparer.quote_identifier(target.schema or "main")
    made = connection.exec_driver_sql(
        f"SELECT sql FROM {schema}.sqlite_master WHERE type = 'table' AND name = ?",  # noqa: S608
        (target.table,),
    ).scalar()
    return re.search(r"WITHOUT\s+ROWID", made or "", re.IGNORECASE) is None


def resolve_names(
    connection: sa.Connection,
    tables: CompaniesTables,
    salts: Salts,
    companies: Mapping[str, str],
    log: EventLog,
    *,
    resolved_by: str,
    confidence: float = 1.0,
) -> WriteBackReport:
    """Give normalised names their companies, as after a person's decision: their requests are done, and targets get
    the real ids, up to `ROWS` rows of each. A sweep finds the others.

    A worker that looks one of them up at this moment loses its lease: what a person says holds.
    """
    replacements: dict[str, str] = {}
    for name, company_id in companies.items():
        stored = answer_requests(
            connection, tables, name, company_id,
            by=resolved_by, confidence=confidence, temp_id=salts.temp_id(name),
        )  # fmt: skip
        replacements |= dict.fromkeys(salts.temp_ids(name).union(filter(None, stored)), company_id)
    return write_back(connection, tables, replacements, log)


def export_resolutions(connection: sa.Connection, *, since: datetime | None = None) -> Iterator[ResolvedName]:
    """Return every resolution since then, the oldest first. Rows are read as they are asked for."""
    c = tables_of(connection.dialect.name).requests.c
    wanted = sa.select(
        c.id,
        c.raw_name,
        c.normalized_name,
        c.temp_id,
        c.resolved_company_id,
        c.resolved_by,
        c.confidence,
        c.finished_at,
    ).where(c.resolved_company_id.is_not(None))
    if since is not None:
        wanted = wanted.where(c.finished_at >= since)
    for row in connection.execute(wanted.order_by(c.finished_at, c.id), execution_options={"yield_per": 1000}):
        at = None if row.finished_at is None else in_utc(row.finished_at)
        yield ResolvedName(
            row.id, row.raw_name, row.normalized_name, row.temp_id, row.resolved_company_id, row.resolved_by,
            row.confidence, at,
        )  # fmt: skip
