"""Does the database keep the key of a queue unique? Every statement that writes to a row names the row by its key.

Catalogues answer this, which every role may read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection

from rowmill.store.terms import Terms


@dataclass(frozen=True, slots=True)
class KeyProblem:
    """Why a key may not be unique, and how to make it so."""

    what: str
    fix: str


@dataclass(frozen=True, slots=True)
class Unique:
    """A unique index, or a primary key that needs none."""

    name: str
    columns: tuple[str, ...]
    flaw: str = ""
    """Why it does not keep the rows of the table apart; empty if it does."""
    invalid: bool = False


@dataclass(frozen=True, slots=True)
class Relation:
    """What a table is in the database, and what is unique in it."""

    is_table: bool
    partitioned: bool
    unique: Sequence[Unique]


def key_problem(connection: Connection, terms: Terms) -> KeyProblem | None:
    """None if no two rows can have the same key, or if there is no such table at all."""
    found = (
        _on_postgres(connection, terms) if connection.dialect.name == "postgresql" else _on_sqlite(connection, terms)
    )
    if found is None:
        return None
    table = terms.queue.table.name
    if not found.is_table:
        return KeyProblem(
            f"{table} is a view or a foreign table, in which nothing is unique", "declare the table behind it"
        )
    key = {column.name for column in terms.queue.key}
    # A part of the key that is unique makes the whole unique. A deferred check is one all the same: it comes before
    # the commit, and nobody sees rows that are not committed. Rows with a NULL in the key are found by no statement.
    if any(not one.flaw and set(one.columns) <= key for one in found.unique):
        return None
    return KeyProblem(_what(terms, found, key), _fix(terms, found, key, connection.dialect.name == "postgresql"))


def _what(terms: Terms, found: Relation, key: set[str]) -> str:
    names = ", ".join(column.name for column in terms.queue.key)
    text = (
        f"nothing in the database keeps {names} unique in table {terms.queue.table.name}, though it is declared as the "
        "primary key: of two rows that share it, the result of one would be written to the other"
    )
    flawed = [f"index {one.name} {one.flaw}" for one in found.unique if one.flaw and set(one.columns) <= key]
    return f"{text}. {'; '.join(flawed)}" if flawed else text


def _fix(terms: Terms, found: Relation, key: set[str], postgres: bool) -> str:
    keys = ", ".join(terms.keys)
    steps = [
        f"see whether rows share it: SELECT {keys}, count(*) FROM {terms.table} GROUP BY {keys} HAVING count(*) > 1"
    ]
    steps += [f"DROP INDEX CONCURRENTLY {one.name}" for one in found.unique if one.invalid and set(one.columns) <= key]
    if postgres:
        how = "" if found.partitioned else "CONCURRENTLY "
        steps.append(f"CREATE UNIQUE INDEX {how}ON {terms.table} ({keys})")
    else:
        name = terms.quote(f"{terms.queue.table.name}_key")
        steps.append(f"CREATE UNIQUE INDEX {name} ON {terms.table} ({keys})")
    wider = next((one for one in found.unique if not one.flaw and set(one.columns) > key), None)
    other = f". Or declare ({', '.join(wider.columns)}) as the primary key: that is unique" if wider else ""
    return "; then: ".join(steps) + other


CATALOGUE = """
SELECT c.relkind IN ('r', 'p') AS is_table, c.relkind = 'p' AS partitioned,
       CAST(CAST(i.indexrelid AS regclass) AS text) AS name, i.indisvalid AS valid,
       i.indpred IS NOT NULL AS partial, i.indexprs IS NOT NULL AS expressions,
       ARRAY(SELECT CAST(a.attname AS text) FROM generate_series(0, i.indnkeyatts - 1) AS n
             JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[n]) AS columns,
       EXISTS (SELECT 1 FROM generate_series(0, i.indnkeyatts - 1) AS n
               JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[n]
               JOIN pg_collation AS l ON l.oid = a.attcollation
               WHERE NOT l.collisdeterministic AND i.indcollation[n] <> a.attcollation) AS collated
FROM pg_class AS c LEFT JOIN pg_index AS i ON i.indrelid = c.oid AND i.indisunique
WHERE c.oid = to_regclass(:table)
ORDER BY name
"""


def _on_postgres(connection: Connection, terms: Terms) -> Relation | None:
    rows = connection.execute(sa.text(CATALOGUE), {"table": terms.table}).all()
    if not rows:
        return None
    unique = []
    for row in rows:
        if row.name is None:
            continue
        flaw = ""
        if not row.valid:
            flaw = "is invalid, because making it failed or is not finished"
        elif row.partial:
            flaw = "holds only some of the rows"
        elif row.expressions:
            flaw = "is on an expression, which may be NULL"
        elif row.collated:
            flaw = "compares texts in another way than the column"
        unique.append(Unique(row.name, tuple(row.columns), flaw, not row.valid))
    return Relation(rows[0].is_table, rows[0].partitioned, unique)


def _on_sqlite(connection: Connection, terms: Terms) -> Relation | None:
    name = terms.queue.table.name
    kind = connection.scalar(
        sa.text("SELECT type FROM sqlite_master WHERE type IN ('table', 'view') AND lower(name) = lower(:name)"),
        {"name": name},
    )
    if kind is None:
        return None
    # Names are the same in either case to SQLite: here they are spelled as the queue declares them.
    declared = {column.name.casefold(): column.name for column in terms.queue.table.columns}
    return Relation(kind == "table", False, list(_unique_on_sqlite(connection, name, declared)))


def _unique_on_sqlite(connection: Connection, name: str, declared: dict[str, str]) -> Iterator[Unique]:
    key = connection.scalars(sa.text("SELECT name FROM pragma_table_info(:name) WHERE pk > 0"), {"name": name}).all()
    if key:  # of one INTEGER it has no index: it is the number of the row itself
        yield Unique("its primary key", tuple(declared.get(str(one).casefold(), str(one)) for one in key))
    indexes = sa.text("SELECT name, partial FROM pragma_index_list(:name) WHERE \"unique\" = 1 AND origin <> 'pk'")
    for index in connection.execute(indexes, {"name": name}).all():
        parts = connection.scalars(sa.text("SELECT name FROM pragma_index_info(:name)"), {"name": index.name}).all()
        columns = tuple(declared.get(str(one).casefold(), str(one)) for one in parts if one is not None)
        flaw = "is on an expression, which may be NULL" if None in parts else ""
        yield Unique(index.name, columns, "holds only some of the rows" if index.partial else flaw)
