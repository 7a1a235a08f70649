"""Columns that a table lacks, or has too narrow."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column

from rowmill.model.declare import NULLABLE
from rowmill.model.errors import MESSAGE_LENGTH
from rowmill.store.adopt.change import Change, Part, Plan
from rowmill.store.adopt.look import Look
from rowmill.store.adopt.plan_words import texts_of
from rowmill.store.terms import Terms, bare

UNFILLED = "rowmill: rows without a state are not filled yet"
"""Comment on a state column that was just added."""


def missing_columns(plan: Plan, terms: Terms, look: Look) -> dict[str, "Column[Any]"]:
    """Columns of the queue that the database lacks, by role."""
    there = {column.name for column in look.table.columns}
    parts = dict(terms.queue.columns)
    missing = {role: column for role, column in parts.items() if column.name not in there}
    ours = {column.name for column in parts.values()}
    for column in terms.queue.table.columns:
        if column.name not in there and column.name not in ours:
            plan.obstacles.append(
                f"table {look.table.name} lacks column {column.name}, which your code has and which is none of the "
                "queue's: add it with a migration of your own"
            )
    return missing


def add_columns(terms: Terms, look: Look, missing: dict[str, "Column[Any]"], postgres: bool) -> Iterator[Change]:
    if not missing:
        return
    definitions = {role: _definition(terms, role, column, look, postgres) for role, column in missing.items()}
    names = ", ".join(column.name for column in missing.values())
    what = f"column {names} is missing" if len(missing) == 1 else f"columns {names} are missing"
    if postgres:
        parts = [f"ADD COLUMN IF NOT EXISTS {definition}" for definition in definitions.values()]
        if "state" in missing:
            # Rows that are there stay NULL, which nobody claims, until the fill below tells done from ready.
            ready = terms.word(terms.queue.steps[0].ready[0])
            parts.append(f"ALTER COLUMN {terms.state} SET DEFAULT {ready}")
        drops = ", ".join(f"DROP COLUMN IF EXISTS {terms.name(column)}" for column in missing.values())
        add = f"ALTER TABLE {terms.table} {', '.join(parts)}"
        if "state" in missing and not look.empty:
            # Both or neither: without the mark, nobody would know that a fill was cut short.
            add = _block(f"BEGIN {add}; {_mark(terms, terms.text(UNFILLED))}; END")
        yield Change(Part.COLUMN, what, (add,), (f"ALTER TABLE {terms.table} {drops}",))
    else:
        adds = tuple(f"ALTER TABLE {terms.table} ADD COLUMN {text}" for text in definitions.values())
        drop = tuple(f"ALTER TABLE {terms.table} DROP COLUMN {terms.name(column)}" for column in missing.values())
        yield Change(Part.COLUMN, what, adds, drop)


def _block(body: str) -> str:
    """An anonymous block, between marks that do not stand in it: a name or a word may hold one."""
    mark = next(mark for mark in (f"$rowmill{n or ''}$" for n in count()) if mark not in body)
    return f"DO {mark} {body} {mark}"


def _mark(terms: Terms, comment: str) -> str:
    return f"COMMENT ON COLUMN {terms.table}.{terms.state} IS {comment}"


def filled(terms: Terms) -> Change:
    """Every row has its state: the mark goes."""
    return Change(
        Part.COLUMN, f"column {terms.queue.columns['state'].name} is marked as unfilled", (_mark(terms, "NULL"),)
    )


def _definition(terms: Terms, role: str, column: "Column[Any]", look: Look, postgres: bool) -> str:
    """The column as ADD COLUMN takes it, without rewriting the table: NULL, or a constant default."""
    kind = column.type.compile(terms.dialect)
    text = f"{terms.name(column)} {kind}"
    if role == "attempts":
        return f"{text} NOT NULL DEFAULT 0" if not column.nullable else f"{text} DEFAULT 0"
    if role == "state":
        ready = terms.word(terms.queue.steps[0].ready[0])
        return text if postgres else f"{text} {'' if column.nullable else 'NOT NULL '}DEFAULT {ready}"
    default = _default(terms, column) if postgres else None
    if default is None:
        return text
    return f"{text} {'' if column.nullable else 'NOT NULL '}DEFAULT {default}"


def _default(terms: Terms, column: "Column[Any]") -> str | None:
    # Without the table: to compile that, SQLAlchemy wants every table that it refers to.
    compile_ddl: Any = terms.dialect.ddl_compiler
    found: str | None = compile_ddl(terms.dialect, None).get_column_default_string(column)
    return found


def loosen_columns(plan: Plan, terms: Terms, look: Look, postgres: bool) -> Iterator[Change]:
    """Columns that are there, but too narrow for what the queue writes."""
    for role, column in terms.queue.columns.items():
        found = look.table.columns.get(column.name)
        if found is None:
            continue
        name = terms.name(column)
        if role in NULLABLE and not found.nullable:
            if postgres:
                yield Change(
                    Part.COLUMN,
                    f"column {column.name} ({role}) does not allow NULL, and is empty most of the time",
                    (f"ALTER TABLE {terms.table} ALTER COLUMN {name} DROP NOT NULL",),
                )
            else:
                plan.obstacles.append(
                    f"column {column.name} ({role}) does not allow NULL, and SQLite can't change that: map another"
                )
        if role == "lease" and not isinstance(bare(found, terms.dialect), sa.BigInteger):
            plan.obstacles.append(
                f"column {column.name} (lease) is {found.type}: tokens need a bigint. Map another column"
            )
        length = found.type.length if isinstance(found.type, sa.String) else None
        needed = MESSAGE_LENGTH if role == "error" else max(map(len, texts_of(terms))) if role == "state" else 0
        if postgres and length is not None and length < needed and not isinstance(found.type, sa.Enum):
            yield Change(
                Part.COLUMN,
                f"column {column.name} ({role}) takes {length} characters; {needed} may be written",
                (f"ALTER TABLE {terms.table} ALTER COLUMN {name} TYPE text",),
                (f"ALTER TABLE {terms.table} ALTER COLUMN {name} TYPE varchar({length}) USING left({name}, {length})",),
            )


def not_null(terms: Terms, column: str) -> Change:
    """NOT NULL without a long lock: a validated CHECK proves it, so that SET NOT NULL need not look at the rows."""
    proof = terms.quote("rowmill_state_is_known")
    return Change(
        Part.COLUMN,
        f"column {column} must not be NULL",
        (
            f"ALTER TABLE {terms.table} ADD CONSTRAINT {proof} CHECK ({column} IS NOT NULL) NOT VALID",
            f"ALTER TABLE {terms.table} VALIDATE CONSTRAINT {proof}",
            f"ALTER TABLE {terms.table} ALTER COLUMN {column} SET NOT NULL",
            f"ALTER TABLE {terms.table} DROP CONSTRAINT {proof}",
        ),
    )
