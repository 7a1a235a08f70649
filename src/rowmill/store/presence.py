"""Is a table in the database as it is declared? Asked before a worker starts: a migration may have been forgotten."""

import shlex

import sqlalchemy as sa
from sqlalchemy import Connection, Table
from sqlalchemy.engine.interfaces import ReflectedColumn
from sqlalchemy.exc import NoSuchTableError

from rowmill.model.errors import DeclarationError
from rowmill.model.words import Step
from rowmill.store.column_facts import column_problems
from rowmill.store.key_facts import key_problem
from rowmill.store.terms import Terms


def check_table(connection: Connection, terms: Terms) -> None:
    """Refuse a table that is not there, lacks columns, or can't keep the promises of a queue: rows that no claim would
    find, a key that is not unique, a lease that does not fit. Names every problem."""
    queue, table = terms.queue, terms.queue.table
    try:
        columns = sa.inspect(connection).get_columns(table.name, schema_of(connection, table))
    except NoSuchTableError:
        raise DeclarationError(
            queue.name,
            [f"there is no table {table.name} in the database. Create it, or look whether DATABASE_URL is right"],
        ) from None
    there = {column["name"]: column for column in columns}
    problems = [
        f"table {table.name} lacks column {column.name} in the database. "
        f"Add it with a migration of yours, or: rowmill adopt {shlex.quote(table.name)}"
        for column in table.columns
        if column.name not in there
    ]
    priority = queue.priority
    if priority is not None and not priority.nullable and _may_be_null(there.get(priority.name)):
        problems.append(
            f"column {priority.name} (priority) may be NULL in the database and is declared NOT NULL: one such row "
            "would keep others from being claimed. Declare it nullable, and a missing one counts as 0; or make it "
            "NOT NULL in the database"
        )
    for role, column in queue.columns.items():
        if column.name in there and role != "created_at":
            found = there[column.name]
            unfit = column_problems(terms, role, found["type"], nullable=found["nullable"])
            problems += [f"{problem.what}. Mend it: {problem.fix}" for problem in unfit]
    key = key_problem(connection, terms)
    if key is not None:
        problems.append(f"{key.what}. Mend it: {key.fix}")
    if problems:
        raise DeclarationError(queue.name, problems)


def _may_be_null(column: ReflectedColumn | None) -> bool:
    return column is not None and column["nullable"]


def claim_refused(terms: Terms, step: Step, reason: str) -> DeclarationError:
    """The table does not let a row be claimed. Nobody can work on it until that is put right."""
    queue = terms.queue
    return DeclarationError(
        queue.name,
        [
            f"a claim writes {terms.word(step.running[0])} into column {queue.columns['state'].name} of table "
            f"{queue.table.name}, and the table refuses it: {reason}. Is there a constraint or a trigger against it?"
        ],
    )


def lease_changed(terms: Terms) -> DeclarationError:
    """A claimed row came back with another lease than was written: nothing would keep two workers apart."""
    queue = terms.queue
    return DeclarationError(
        queue.name,
        [
            f"a claim writes a token of its own into column {queue.columns['lease'].name} of table {queue.table.name}, "
            "and the table keeps something else: is there a trigger that writes to it? The token is what keeps a "
            "worker from writing to a row that another one holds. Take the column out of the trigger"
        ],
    )


def has_table(connection: Connection, table: Table) -> bool:
    return sa.inspect(connection).has_table(table.name, schema=schema_of(connection, table))


def make_schema(connection: Connection, table: Table) -> None:
    """Asked first: IF NOT EXISTS wants the right to make one, even where it is there."""
    name = schema_of(connection, table)
    if name is not None and not sa.inspect(connection).has_schema(name):
        connection.execute(sa.schema.CreateSchema(name, if_not_exists=True))


def schema_of(connection: Connection, table: Table) -> str | None:
    """A file of SQLite has no schemas."""
    return table.schema if connection.dialect.name == "postgresql" else None
