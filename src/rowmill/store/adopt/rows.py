"""What rows that are there already must be given, so that none is lost, repeated, or taken for stuck."""

from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Connection

from rowmill.model.lifecycle import UNFINISHED, Kind
from rowmill.store.adopt.evidence import FIRST
from rowmill.store.adopt.fill import Fill
from rowmill.store.adopt.look import Look, samples
from rowmill.store.adopt.plan_words import word_text
from rowmill.store.adopt.times import sorts_wrongly
from rowmill.store.clauses import in_words
from rowmill.store.index_facts import IndexState, index_states
from rowmill.store.indexes import queue_indexes
from rowmill.store.terms import Terms, bare


def fills(
    connection: Connection,
    terms: Terms,
    look: Look,
    missing: Mapping[str, "Column[Any]"],
    where: Mapping[Kind, str],
    *,
    unfilled: bool,
) -> Iterator[tuple[str, Fill]]:
    """(what is wrong, what to write). `where` says which rows are in which state, if they have none yet."""
    if unfilled:
        yield from _states(terms, look, where, connection.dialect.name == "postgresql")
    if "state" in missing and look.empty:
        return
    if not unfilled or Kind.RUNNING in where:
        yield from _leases(connection, terms, look, missing, unfilled=unfilled)
    if "attempts" not in missing:
        yield from _attempts(connection, terms, look, unfilled=unfilled)
    for role in ("available_at", "leased_until"):
        if role not in missing and connection.dialect.name == "sqlite":
            yield from _times(connection, terms, look, role, unfilled=unfilled)


def _fill(look: Look, sets: str, where: str, *, walk: bool) -> Fill:
    return Fill(look.table.name, look.table.schema, sets, where, walk)


def _states(terms: Terms, look: Look, where: Mapping[Kind, str], postgres: bool) -> Iterator[tuple[str, Fill]]:
    """The first condition that holds for a row says its state. A row for which none holds is ready; but where there is
    a condition for ready too, it gets no state, and is left alone."""
    words = {kind: terms.word(terms.queue.vocabulary.of(kind)[0]) for kind in where if terms.queue.vocabulary.of(kind)}
    ready = terms.word(terms.queue.steps[0].ready[0])
    whens = " ".join(f"WHEN ({where[kind]}) THEN {words[kind]}" for kind in FIRST if kind in words)
    rest = "NULL" if Kind.READY in where else ready
    value = f"CASE {whens} ELSE {rest} END" if whens else rest
    if postgres:
        yield "rows have no state yet", _fill(look, f"{terms.state} = {value}", f"{terms.state} IS NULL", walk=True)
        return
    # The new column's default made every row ready, in this same transaction.
    others = [f"({where[kind]})" for kind in FIRST if kind in words and kind is not Kind.READY]
    if Kind.READY in where:
        others.append(f"NOT coalesce(({where[Kind.READY]}), false)")
    if others:
        changed = f"{terms.state} = {ready} AND ({' OR '.join(others)})"
        yield "rows that are not ready have no state yet", _fill(look, f"{terms.state} = {value}", changed, walk=False)


def _leases(
    connection: Connection, terms: Terms, look: Look, missing: Mapping[str, "Column[Any]"], *, unfilled: bool
) -> Iterator[tuple[str, Fill]]:
    """Rows in progress belong to somebody: they are left alone for a lease, and rescued only after it."""
    for step in terms.queue.steps:
        until = terms.later("leased_until", repr(float(step.lease)))
        without = f"{terms.leased_until} IS NULL"
        if "lease" in missing and "leased_until" not in missing:
            # An end of a lease that the table's own code wrote, and may not have kept to.
            without = f"({without} OR {terms.leased_until} < {terms.now('leased_until')})"
        where = f"{terms.is_in(step.running)} AND {without}"
        known = not unfilled and "leased_until" not in missing and not look.elsewhere
        if known and not _any_running_without(connection, terms, look, where):
            continue
        many = f"{_count(connection, look, where):,} " if known and look.exact else ""
        words = ", ".join(map(str, step.running))
        what = (
            f"{many}rows in progress ({words}) have no lease: they get one of {step.lease:g} s, and are rescued after"
        )
        yield what, _fill(look, f"{terms.leased_until} = {until}", where, walk=False)


def _any_running_without(connection: Connection, terms: Terms, look: Look, where: str) -> bool:
    """Looks only where that is quick; otherwise the answer is that there may be some."""
    if not look.exact:
        running = [index for index in queue_indexes(terms) if index.serves == "rescue"]
        if index_states(connection, terms, running)[running[0].name] is not IndexState.GOOD:
            return True
    some = sa.select(sa.literal(1)).select_from(look.table).where(sa.literal_column(where)).limit(1)
    return connection.scalar(some) is not None


def _count(connection: Connection, look: Look, where: str) -> int:
    rows = sa.select(sa.func.count()).select_from(look.table).where(sa.literal_column(where))
    return connection.scalar(rows) or 0


def _attempts(connection: Connection, terms: Terms, look: Look, *, unfilled: bool) -> Iterator[tuple[str, Fill]]:
    column = look.table.columns[terms.queue.columns["attempts"].name]
    if not column.nullable:
        return
    unfinished = terms.queue.vocabulary.all_of(UNFINISHED)
    if unfilled:
        where = f"{terms.is_in(unfinished)} AND {terms.attempts} IS NULL"
        yield "rows have no count of attempts", _fill(look, f"{terms.attempts} = 0", where, walk=True)
        return
    state = look.table.columns[terms.queue.columns["state"].name]
    texts = [word_text(terms, word) for word in unfinished]
    for sample in samples(look.table, [column], lambda rows: _is_one_of(rows.c[state.key], texts)):
        found = sample.subquery()
        seen = connection.scalar(sa.select(sa.literal(1)).where(found.c[column.key].is_(None)).limit(1))
        if seen or look.elsewhere:
            where = f"{terms.is_in(unfinished)} AND {terms.attempts} IS NULL"
            yield "rows have no count of attempts", _fill(look, f"{terms.attempts} = 0", where, walk=True)
            return


def _is_one_of(column: Any, words: list[str]) -> "sa.ColumnElement[bool]":
    return sa.cast(column, sa.String).in_(words)


def _times(
    connection: Connection, terms: Terms, look: Look, role: str, *, unfilled: bool
) -> Iterator[tuple[str, Fill]]:
    """SQLite compares times as text: those written in another way must become like ours."""
    column = terms.queue.columns[role]
    if not isinstance(bare(column, terms.dialect), sa.DateTime):
        return
    kinds = {Kind.READY, Kind.WAITING} if role == "available_at" else {Kind.RUNNING}
    waiting = in_words(terms, terms.queue.vocabulary.all_of(frozenset(kinds)))
    found = look.table.columns[column.name]
    raw = sa.type_coerce(found, sa.types.NullType())
    conditions = [found.is_not(None)] if unfilled else [waiting, found.is_not(None)]
    values = connection.scalars(sa.select(raw).where(*conditions).limit(2000))
    if not any(sorts_wrongly(value) for value in values):
        return
    name = terms.name(column)
    words = terms.is_in(terms.queue.vocabulary.all_of(frozenset(kinds)))
    other = f"(substr({name}, 11, 1) = 'T' OR substr({name}, 20) LIKE '%+%' OR substr({name}, 20) LIKE '%-%')"
    sets = f"{name} = coalesce(strftime('%Y-%m-%d %H:%M:%f000', {name}), {name})"
    where = f"{words} AND {other} AND strftime('%s', {name}) IS NOT NULL"
    yield f"times in {column.name} are written so that they sort wrongly", _fill(look, sets, where, walk=True)
