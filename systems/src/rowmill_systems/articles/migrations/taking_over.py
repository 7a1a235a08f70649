"""Tables that a team may have already: they get what they lack, and keep what they hold.

`articles_meta` notes which tables and columns were made, so that a downgrade takes away just those.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from alembic import op

import rowmill as rm
from rowmill.systems.revisions import indexes_of
from rowmill_systems.parts.defaults import current_moment, random_uuid

MOMENT = sa.DateTime(timezone=True)
META = sa.table("articles_meta", sa.column("key", sa.String), sa.column("value", sa.Text))
MADE = "made"
"""The note of a table that was not there before."""
TYPES: dict[type[Any], str] = {
    sa.Uuid: "uuid", sa.DateTime: "timestamptz", sa.Integer: "integer", sa.JSON: "jsonb", sa.String: "text",
}  # fmt: skip
BATCH = 1000


@dataclass(frozen=True)
class TableToTakeOver:
    """A table as this version needs it."""

    name: str
    columns: "Mapping[str, sa.Column[Any]]"
    needed: Mapping[str, str]
    """Columns that can't be added to a table with rows, and what each holds."""
    indexes: Mapping[str, "IndexToMake"]
    constraints: Sequence[sa.Constraint] = ()
    states: tuple[str, ...] = ()
    """The words that `status` may hold."""


@dataclass(frozen=True)
class IndexToMake:
    columns: Sequence[Any]
    unique: bool = False
    where: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def key() -> "sa.Column[Any]":
    return sa.Column("id", sa.Uuid, primary_key=True, server_default=random_uuid())


def moment(name: str) -> "sa.Column[Any]":
    return sa.Column(name, MOMENT, nullable=False, server_default=current_moment())


def by_name(*columns: "sa.Column[Any]") -> "dict[str, sa.Column[Any]]":
    return {column.name: column for column in columns}


def make_or_complete(connection: sa.Connection, table: TableToTakeOver) -> list[str] | None:
    """Create the table, or add what it lacks. Return the columns that were added; None if the table was created."""
    if not sa.inspect(connection).has_table(table.name):
        op.create_table(table.name, *table.columns.values(), *table.constraints)
        note(connection, table.name, MADE)
        return None
    check_existing(connection, table)
    there = {column["name"] for column in sa.inspect(connection).get_columns(table.name)}
    missing = [name for name in table.columns if name not in there]
    for name in missing:
        column = table.columns[name]
        if connection.dialect.name == "sqlite" and isinstance(
            getattr(column.server_default, "arg", None), current_moment
        ):
            column.server_default, column.nullable = None, True  # SQLite adds no column whose default is a function
        elif column.server_default is None:
            column.nullable = True  # it is filled in afterwards
        op.add_column(table.name, column)
    note(connection, table.name, json.dumps(missing))
    return missing


def make_indexes(connection: sa.Connection, table: TableToTakeOver) -> None:
    """Create the indexes that the table lacks."""
    there = index_names(connection, table.name)
    for name, index in table.indexes.items():
        if name not in there:
            where = None if index.where is None else sa.text(index.where)
            op.create_index(
                name, table.name, list(index.columns),
                unique=index.unique, postgresql_where=where, sqlite_where=where, **index.options,
            )  # fmt: skip


def index_names(connection: sa.Connection, table: str) -> set[str]:
    if connection.dialect.name == "sqlite":  # SQLAlchemy does not see those on expressions
        found = connection.exec_driver_sql(
            "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = ?", (table,)
        )
        return set(found.scalars())
    return {str(index["name"]) for index in indexes_of(connection, table)}


def fill_defaults(connection: sa.Connection, table: TableToTakeOver) -> None:
    """Write the default of each column where there is NULL, and give the column of a table of before that default."""
    there: dict[str, Any] = {column["name"]: column for column in sa.inspect(connection).get_columns(table.name)}
    for name, column in table.columns.items():
        default: Any = getattr(column.server_default, "arg", None)
        if default is None or column.primary_key:
            continue
        c = sa.table(table.name, sa.column(name, column.type))
        value = int(default) if isinstance(column.type, sa.Integer) else default
        connection.execute(sa.update(c).where(c.c[name].is_(None)).values({name: value}))
        if connection.dialect.name == "postgresql" and there[name]["default"] is None:
            op.alter_column(table.name, name, server_default=default)
    if connection.dialect.name == "postgresql" and there["id"]["default"] is None:
        op.alter_column(table.name, "id", server_default=random_uuid())


def check_existing(connection: sa.Connection, table: TableToTakeOver) -> None:
    """Raise SchemaMismatch with everything that must be changed first. Writes nothing."""
    inspector = sa.inspect(connection)
    found = {column["name"]: column["type"] for column in inspector.get_columns(table.name)}
    problems = [
        f"column {name} is missing: {holds}. If yours has another name: "
        f"ALTER TABLE {table.name} RENAME COLUMN … TO {name}"
        for name, holds in table.needed.items()
        if name not in found
    ]
    primary = inspector.get_pk_constraint(table.name)["constrained_columns"]
    if primary != ["id"]:
        problems.append(f"its primary key is ({', '.join(primary)}), and has to be id, a uuid")
    if connection.dialect.name == "postgresql":  # a column of SQLite takes values of any type
        problems += _of_another_type(found, table)
    elif "id" in found:
        problems += _keys_with_dashes(connection, table, found)
    if not problems:
        problems += _strange_words(connection, table, found)
        problems += _duplicates(connection, table, found)
    if problems:
        lines = "".join(f"\n  - {problem}" for problem in problems)
        raise rm.errors.SchemaMismatch(f"articles can't work on the table {table.name} that is there:{lines}")


def _of_another_type(found: Mapping[str, Any], table: TableToTakeOver) -> Iterator[str]:
    for name, column in table.columns.items():
        there = found.get(name)
        if there is None:
            continue
        kind = next(kind for kind in TYPES if isinstance(column.type, kind))
        fits = isinstance(there, kind) and not isinstance(there, sa.Enum)
        if kind is sa.DateTime:
            fits = fits and bool(there.timezone)
        if kind is sa.JSON:
            fits = type(there).__name__ == "JSONB"
        if not fits:
            wanted = TYPES[kind]
            how = {"timestamptz": f"{name} AT TIME ZONE 'UTC'", "jsonb": f"to_jsonb({name})"}.get(
                wanted, f"{name}::{wanted}"
            )
            default = f"ALTER COLUMN {name} DROP DEFAULT, " if isinstance(there, sa.Enum) else ""
            yield (
                f"column {name} holds {there}, and {wanted} is needed. Run: ALTER TABLE {table.name} {default}"
                f"ALTER COLUMN {name} TYPE {wanted} USING {how}"
            )


def _keys_with_dashes(connection: sa.Connection, table: TableToTakeOver, found: Mapping[str, Any]) -> Iterator[str]:
    for name, column in table.columns.items():
        if name in found and isinstance(column.type, sa.Uuid):
            c = sa.table(table.name, sa.column(name))
            if connection.execute(sa.select(c.c[name]).where(sa.func.length(c.c[name]) != 32).limit(1)).first():
                yield (
                    f"column {name} holds keys that are not 32 hexadecimal digits. Write lower(replace({name}, '-', "
                    f"'')) into it, and into all columns that refer to it"
                )


def _strange_words(connection: sa.Connection, table: TableToTakeOver, found: Mapping[str, Any]) -> Iterator[str]:
    if table.states and "status" in found:
        status: sa.ColumnClause[Any] = sa.column("status")
        others = sa.select(status).select_from(sa.table(table.name)).where(status.not_in(table.states)).distinct()
        words = sorted(str(row[0]) for row in connection.execute(others.limit(10)))
        if words:
            yield f"column status holds {', '.join(words)}, and may hold {', '.join(table.states)}. Change those rows"


def _duplicates(connection: sa.Connection, table: TableToTakeOver, found: Mapping[str, Any]) -> Iterator[str]:
    for index in table.indexes.values():
        names = [name for name in index.columns if isinstance(name, str)]
        if index.unique and all(name in found for name in names):
            columns: list[sa.ColumnClause[Any]] = [sa.column(name) for name in names]
            twice = sa.select(*columns).select_from(sa.table(table.name)).group_by(*columns)
            twice = twice.where(*(column.is_not(None) for column in columns)).having(sa.func.count() > 1)
            count = connection.scalar(sa.select(sa.func.count()).select_from(twice.subquery())) or 0
            if count:
                yield f"{count} values of ({', '.join(names)}) are there more than once. Delete all but one of each"


def take_back(connection: sa.Connection, table: TableToTakeOver) -> None:
    """Drop the table, or, if it was there before, what was added to it."""
    added = connection.scalar(sa.select(META.c.value).where(META.c.key == table.name))
    if added is None:
        return
    connection.execute(sa.delete(META).where(META.c.key == table.name))
    if added == MADE:
        op.drop_table(table.name)
        return
    for name in index_names(connection, table.name):
        # Those of Rowmill's too, which `rowmill migrate` made: SQLite drops no column that an index names.
        if name in table.indexes or name.startswith("rowmill_"):
            op.drop_index(name, table.name)
    for name in reversed(json.loads(added)):
        op.drop_column(table.name, name)


def note(connection: sa.Connection, name: str, value: str) -> None:
    connection.execute(sa.delete(META).where(META.c.key == name))
    connection.execute(sa.insert(META).values(key=name, value=value))


def each_batch(
    connection: sa.Connection, wanted: "sa.Select[Any]", key: "sa.ColumnElement[Any]"
) -> Iterator[Sequence[Any]]:
    """Return rows in batches, in the order of their key. What is written meanwhile may take them out of `wanted`."""
    last: Any = None
    while True:
        after = wanted if last is None else wanted.where(key > last)
        rows = connection.execute(after.order_by(key).limit(BATCH)).all()
        if not rows:
            return
        last = rows[-1][0]
        yield rows
