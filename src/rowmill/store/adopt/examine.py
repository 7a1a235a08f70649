"""The whole look: at a table of which nothing is known, or at the table of a declared queue."""

from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from rowmill.model.errors import BadRequest
from rowmill.model.lifecycle import Kind
from rowmill.model.queue import Columns, Order, Queue
from rowmill.model.words import Word
from rowmill.store import raw_sql
from rowmill.store.adopt import lexicon
from rowmill.store.adopt.build import build_queue, terms_of
from rowmill.store.adopt.change import Plan
from rowmill.store.adopt.declaration import declaration
from rowmill.store.adopt.guess import States, Wishes, guess_states
from rowmill.store.adopt.look import Look, find_table, look_at, reflect, words_in
from rowmill.store.adopt.plan import make_plan
from rowmill.store.adopt.plan_columns import UNFILLED
from rowmill.store.adopt.plan_words import texts_of
from rowmill.store.adopt.roles import Roles, guess_roles
from rowmill.store.terms import Terms, bare

STOP_FIRST = (
    "before you apply this, stop what works on these rows now: it knows no leases, and would take the same rows as "
    "the new workers"
)


@dataclass(slots=True)
class Adoption:
    """What was found, and what to do about it."""

    table: str
    rows: int
    exact: bool
    columns: dict[str, str]
    """By role."""
    added: list[str]
    """Those of them that the table does not have yet."""
    states: dict[Kind, tuple[Word, ...]]
    seen: dict[Any, int]
    """Words of the table, with how many rows; of a sample, if not `exact`."""
    unknown: dict[Any, int]
    doubts: list[str] = field(default_factory=list)
    """What a person must confirm before anything is changed."""
    notes: list[str] = field(default_factory=list)
    plan: Plan = field(default_factory=Plan)
    declaration: str | None = None
    """How to declare it, for a table that no code declares yet."""


def examine_table(
    connection: Connection, name: str, wishes: Wishes | None = None, *, elsewhere: bool = False
) -> Adoption:
    """A table that nobody has declared: what it means is guessed, as far as `wishes` does not say. With `elsewhere`,
    the plan fits other databases as well, whatever rows they have."""
    wishes = wishes or Wishes()
    look = look_at(connection, find_table(connection, name), elsewhere=elsewhere)
    _check(wishes, look)
    states = guess_states(connection, look, wishes)
    done = [lexicon.plain(str(word)) for word in states.words[Kind.DONE]]
    chosen = {role: column for role, column in wishes.columns.items() if role != "state"}
    roles = guess_roles(connection, look, states.column, done, chosen, wishes.epoch)
    if not look.is_table or not look.table.primary_key.columns:
        return _unfit(connection, look, states, roles, wishes)
    queue, columns, order = build_queue(look, states, roles, wishes, connection.dialect)
    terms = terms_of(queue, connection.dialect)
    finished = _finished(terms, look, states) if _unfilled(look, states.column) else None
    found = _adoption(queue, look, states, make_plan(connection, terms, look, finished))
    found.notes = [*states.notes, *roles.notes, *_order_notes(order, wishes), *found.notes, *_zone_notes(terms, look)]
    found.notes += [*_count_notes(queue), *_used_up_notes(connection, terms, look)]
    if found.plan.changes:
        found.notes.append(STOP_FIRST)
    found.declaration = declaration(look, queue, columns, order, states, roles, wishes)
    return found


def examine_queue(connection: Connection, terms: Terms, queue: Queue[Any], *, elsewhere: bool = False) -> Adoption:
    """A declared queue: what its table lacks in this database."""
    schema_name = queue.table.schema if connection.dialect.name == "postgresql" else None
    if not sa.inspect(connection).has_table(queue.table.name, schema=schema_name):
        raise BadRequest(
            f"this database has no table {queue.table.fullname}. Create it with your own migrations, or with: "
            "rowmill migrate --tables"
        )
    look = look_at(connection, reflect(connection, queue.table.name, schema_name), elsewhere=elsewhere)
    words: dict[Kind, tuple[Word, ...]] = {kind: queue.vocabulary.of(kind) for kind in Kind}
    words[Kind.WAITING] = tuple(word for step in queue.steps for word in step.waiting)
    states = States(queue.columns["state"].name, words)
    column = look.table.columns.get(queue.columns["state"].name)
    if column is not None:
        seen = words_in(connection, look, column)
        states.seen, states.seen_all = seen.counts, seen.complete
        known = texts_of(terms)
        states.unknown = {word: n for word, n in seen.counts.items() if word is None or str(word) not in known}
    finished = _finished(terms, look, states) if _unfilled(look, states.column) else None
    found = _adoption(queue, look, states, make_plan(connection, terms, look, finished, declared=True))
    found.notes += [*_zone_notes(terms, look), *_used_up_notes(connection, terms, look)]
    return found


def _unfilled(look: Look, state: str | None) -> bool:
    column = None if state is None else look.table.columns.get(state)
    return column is None or column.comment == UNFILLED


def _adoption(queue: Queue[Any], look: Look, states: States, plan: Plan) -> Adoption:
    columns = {role: column.name for role, column in queue.columns.items()}
    if queue.priority is not None:
        columns["priority"] = queue.priority.name
    found = Adoption(
        table=str(look.table.fullname),
        rows=look.rows,
        exact=look.exact,
        columns=columns,
        added=[name for name in columns.values() if name not in look.table.columns],
        states={kind: states.words[kind] for kind in Kind if states.words.get(kind)},
        seen=states.seen,
        unknown=states.unknown,
        doubts=states.doubts,
        plan=plan,
    )
    if states.unknown:
        listed = ", ".join("NULL" if word is None else repr(word)[:40] for word in list(states.unknown)[:10])
        found.notes.append(f"rows in state {listed} are left alone: that means nothing to the queue")
    return found


def _unfit(connection: Connection, look: Look, states: States, roles: Roles, wishes: Wishes) -> Adoption:
    """A view, or a table without a key: the plan says what to do first."""
    table = look.table.to_metadata(sa.MetaData())
    if not table.primary_key.columns:
        table.append_constraint(sa.PrimaryKeyConstraint(next(iter(table.columns))))
    stand_in = Look(table, look.rows, look.exact, is_table=look.is_table)
    queue, _, _ = build_queue(stand_in, states, roles, wishes, connection.dialect)
    return _adoption(queue, look, states, make_plan(connection, terms_of(queue, connection.dialect), look))


def _check(wishes: Wishes, look: Look) -> None:
    wrong = [name for name in (wishes.state, *wishes.columns.values()) if name and name not in look.table.columns]
    if wrong:
        have = ", ".join(column.name for column in look.table.columns)
        raise BadRequest(f"table {look.table.name} has no column {', '.join(wrong)}. It has: {have}")
    strangers = [role for role in wishes.columns if role not in (*Columns.__slots__, "priority")]
    if strangers:
        parts = ", ".join((*Columns.__slots__, "priority"))
        raise BadRequest(f"there is no part {', '.join(strangers)} for a column. There are: {parts}")


def _finished(terms: Terms, look: Look, states: States) -> str | None:
    """What says that a row is done, in a table without states."""
    column = terms.queue.columns["finished_at"]
    if column.name in look.table.columns:
        return f"{terms.name(column)} IS NOT NULL"
    for candidate in look.table.columns:
        if lexicon.plain(candidate.name) in lexicon.FLAGS and isinstance(candidate.type, sa.Boolean):
            return f"coalesce({terms.name(candidate)}, false)"
    if not look.empty:
        states.doubts.append(
            "nothing says which rows are done already: every row would be worked on. If that is meant, say --sure"
        )
    return None


def _order_notes(order: Order, wishes: Wishes) -> list[str]:
    if order.priority is None or wishes.lower_first:
        return []
    return [f"a higher {order.priority} goes first; if a lower one should, say --lower-first"]


def _count_notes(queue: Queue[Any]) -> list[str]:
    if queue.counting == "attempts":
        return []
    name = queue.columns["attempts"].name
    return [f'{name} is taken for a count of failed tries; if it counts every try, leave out counts="failures"']


def _used_up_notes(connection: Connection, terms: Terms, look: Look) -> list[str]:
    """Rows that the first claim would bury. Only asked of a table that is quickly read."""
    there = {"state", "attempts"} <= {role for role, c in terms.queue.columns.items() if c.name in look.table.columns}
    if not there or not look.exact or look.elsewhere:
        return []
    notes = []
    for step in terms.queue.steps:
        rows = f"{terms.is_in(step.claimable)} AND {terms.used_up(step)}"
        count = raw_sql.run(connection, f"SELECT count(*) FROM {terms.table} WHERE {rows}").scalar_one()
        if count:
            again = f"UPDATE {terms.table} SET {terms.attempts} = 0 WHERE {rows}"
            notes.append(
                f"{count} rows are ready that have had {step.retry.attempts} attempts or more: their next claim buries "
                f"them. If they should run: {again}"
            )
    return notes


def _zone_notes(terms: Terms, look: Look) -> list[str]:
    """A timestamp without a zone is UTC to us; a DEFAULT now() writes the zone of the session into it."""
    naive = [
        column.name
        for column in terms.queue.columns.values()
        if isinstance(kind := bare(column, terms.dialect), sa.DateTime)
        and not kind.timezone
        and column.name in look.table.columns
    ]
    if terms.dialect.name != "postgresql" or not naive or look.zone in ("UTC", "Etc/UTC", "GMT"):
        return []
    return [
        f"{', '.join(naive)} have no time zone and are taken as UTC, but this database writes now() in {look.zone}: "
        "make them timestamptz, or see that your code writes UTC"
    ]
