"""The complete examination of an unknown table, or of the table of a declared queue."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from rowmill.adopt import known_names
from rowmill.adopt.build import build_queue, sql_of
from rowmill.adopt.declaration import declaration
from rowmill.adopt.evidence import FIRST, RowEvidence, StateCondition
from rowmill.adopt.flags import Flags, HeldBack, done_flags, held_back, read_flags
from rowmill.adopt.guess import AdoptOptions, StateGuess, guess_states
from rowmill.adopt.plan import UNFILLED, make_plan, texts_of, word_text
from rowmill.adopt.roles import Roles, guess_roles
from rowmill.adopt.steps import MigrationPlan
from rowmill.adopt.table_facts import TableFacts, find_table, named_in, read_facts, reflect, words_in
from rowmill.model.declare import NUMBERS
from rowmill.model.errors import BadRequest
from rowmill.model.lifecycle import CLAIMABLE, StateKind
from rowmill.model.queue import Columns, Order, QueueSpec
from rowmill.model.states import Step, Word
from rowmill.store.queue_sql import QueueSql, bare

STOP_FIRST = (
    "before you apply this, stop what works on these rows now: it knows no leases, and would take the same rows as "
    "the new workers"
)


@dataclass(slots=True)
class Adoption:
    """The result of an examination: what the table is, and what it lacks."""

    table: str
    rows: int
    exact: bool
    columns: dict[str, str]
    """Column by role."""
    added: list[str]
    """Columns that the migration adds, by role."""
    states: dict[StateKind, tuple[Word, ...]]
    seen: dict[Any, int]
    """Words in the state column, with row counts. From a sample if not `exact`."""
    unknown: dict[Any, int]
    doubts: list[str] = field(default_factory=list)
    """Guesses that a person must confirm before anything is changed."""
    notes: list[str] = field(default_factory=list)
    plan: MigrationPlan = field(default_factory=MigrationPlan)
    declaration: str | None = None
    """Code that declares the queue, for a table that no code declares yet."""


def examine_table(
    connection: Connection, name: str, choices: AdoptOptions | None = None, *, elsewhere: bool = False
) -> Adoption:
    """Examine a table that no code declares. `choices` override guesses. With `elsewhere`, the plan must also fit other
    databases with other rows."""
    choices = choices or AdoptOptions()
    facts = read_facts(connection, find_table(connection, name), elsewhere=elsewhere)
    _check(choices, facts)
    states = guess_states(connection, facts, choices)
    flags = read_flags(connection, facts, choices) if _unfilled(facts, states.column) else None
    if flags is not None and StateKind.CANCELLED in flags.where:
        states.words.setdefault(StateKind.CANCELLED, ("cancelled",))
    evidence = RowEvidence(connection, facts, conditions_of(states) if flags is None else flags.conditions)
    done = [known_names.plain(str(word)) for word in states.words[StateKind.DONE]]
    roles = guess_roles(connection, facts, states.column, done, choices, evidence)
    if not facts.is_table or not facts.table.primary_key.columns:
        return _unfit(connection, facts, states, roles, choices)
    queue, columns, order = build_queue(facts, states, roles, choices, connection.dialect)
    sql = sql_of(queue, connection.dialect)
    found = _adoption(queue, facts, states, make_plan(connection, sql, facts, flags.where if flags else None))
    found.doubts += roles.doubts
    if flags is not None:
        _report_flags(found, flags, evidence)
    else:
        _doubt_done_flags(found, sql, facts, evidence, done_flags(connection, facts))
    if not choices.where:
        _doubt_retries(found, states, roles, choices, facts, evidence)
    found.notes += _check_notes(facts, states)
    held = held_back(connection, facts, found.columns.values())
    _tell_held_back(found, held, evidence)
    _report_rows(found, sql, facts, evidence)
    found.notes = [*states.notes, *roles.notes, *_order_notes(order, choices), *found.notes, *_count_notes(queue)]
    if found.plan.changes:
        found.notes.append(STOP_FIRST)
    found.declaration = declaration(facts, queue, columns, order, states, roles, choices, held)
    return found


def conditions_of(states: StateGuess) -> dict[StateKind, StateCondition]:
    return {
        kind: StateCondition(states.column, tuple(str(getattr(word, "value", word)) for word in words))
        for kind, words in states.words.items()
        if words
    }


def examine_queue(
    connection: Connection,
    sql: QueueSql,
    queue: QueueSpec[Any],
    where: Mapping[StateKind, str] | None = None,
    *,
    elsewhere: bool = False,
) -> Adoption:
    """Examine the table of a declared queue: what does it lack in this database? `where` gives the rows in each state,
    for a table without a state column."""
    schema_name = queue.table.schema if connection.dialect.name == "postgresql" else None
    if not sa.inspect(connection).has_table(queue.table.name, schema=schema_name):
        raise BadRequest(
            f"this database has no table {queue.table.fullname}. Create it with your own migrations, or with: "
            "rowmill migrate --tables"
        )
    facts = read_facts(connection, reflect(connection, queue.table.name, schema_name), elsewhere=elsewhere)
    words: dict[StateKind, tuple[Word, ...]] = {kind: queue.vocabulary.of(kind) for kind in StateKind}
    words[StateKind.WAITING] = tuple(word for step in queue.steps for word in step.waiting)
    states = StateGuess(queue.columns["state"].name, words)
    column = facts.table.columns.get(queue.columns["state"].name)
    if column is not None:
        seen = words_in(connection, facts, column)
        states.seen, states.seen_all = seen.counts, seen.complete
        known = [*texts_of(sql), *_spelled(sql, queue.vocabulary.others)]
        states.unknown = {word: n for word, n in seen.counts.items() if word is None or str(word) not in known}
    flags = None
    if _unfilled(facts, states.column):
        finished = queue.columns["finished_at"].name
        chosen = {"finished_at": finished} if finished in facts.table.columns else {}
        flags = read_flags(connection, facts, AdoptOptions(columns=chosen, where=where or {}))
    elif where:
        raise BadRequest(f"rows of {queue.name} have a state already: conditions are for a table without one")
    plan = make_plan(connection, sql, facts, flags.where if flags else None, declared=True)
    found = _adoption(queue, facts, states, plan)
    spelled = {kind: StateCondition(states.column, _spelled(sql, words[kind])) for kind in StateKind if words[kind]}
    evidence = RowEvidence(connection, facts, spelled if flags is None else flags.conditions)
    if flags is not None:
        _report_flags(found, flags, evidence)
        _refuse_without_state(found, sql, facts, flags, evidence)
    _report_rows(found, sql, facts, evidence)
    return found


def _refuse_without_state(
    found: Adoption, sql: QueueSql, facts: TableFacts, flags: Flags, evidence: RowEvidence
) -> None:
    """Report rows that match no condition: they would get no state, and a column declared NOT NULL needs one."""
    state = sql.queue.columns["state"]
    if StateKind.READY not in flags.where or state.nullable or facts.empty:
        return
    rows = evidence.counts().get(None, 0)
    if rows:
        found.plan.obstacles.append(
            f"{rows:,} rows fit none of the conditions, and would get no state, but column {state.name} is declared "
            "NOT NULL: declare it as nullable; or leave out --ready-where, and they are ready; or give them another "
            "condition, such as --cancelled-where"
        )


def _spelled(sql: QueueSql, words: Iterable[Word]) -> tuple[str, ...]:
    return tuple(word_text(sql, word) for word in words)


def _unfilled(facts: TableFacts, state: str | None) -> bool:
    column = None if state is None else facts.table.columns.get(state)
    return column is None or column.comment == UNFILLED


def _adoption(queue: QueueSpec[Any], facts: TableFacts, states: StateGuess, plan: MigrationPlan) -> Adoption:
    columns = {role: column.name for role, column in queue.columns.items()}
    if queue.priority is not None:
        columns["priority"] = queue.priority.name
    found = Adoption(
        table=str(facts.table.fullname),
        rows=facts.rows,
        exact=facts.exact,
        columns=columns,
        added=[name for name in columns.values() if name not in facts.table.columns],
        states={kind: states.words[kind] for kind in StateKind if states.words.get(kind)},
        seen=states.seen,
        unknown=states.unknown,
        doubts=states.doubts,
        plan=plan,
    )
    if states.unknown:
        listed = ", ".join("NULL" if word is None else repr(word)[:40] for word in list(states.unknown)[:10])
        found.notes.append(f"rows in state {listed} are left alone: that means nothing to the queue")
    return found


def _unfit(
    connection: Connection, facts: TableFacts, states: StateGuess, roles: Roles, choices: AdoptOptions
) -> Adoption:
    """Return the result for a view or a table without a key: what must be done first."""
    table = facts.table.to_metadata(sa.MetaData())
    if not table.primary_key.columns:
        table.append_constraint(sa.PrimaryKeyConstraint(next(iter(table.columns))))
    stand_in = TableFacts(table, facts.rows, facts.exact, is_table=facts.is_table)
    queue, _, _ = build_queue(stand_in, states, roles, choices, connection.dialect)
    return _adoption(queue, facts, states, make_plan(connection, sql_of(queue, connection.dialect), facts))


def _check(choices: AdoptOptions, facts: TableFacts) -> None:
    wrong = [name for name in (choices.state, *choices.columns.values()) if name and name not in facts.table.columns]
    if wrong:
        have = ", ".join(column.name for column in facts.table.columns)
        raise BadRequest(f"table {facts.table.name} has no column {', '.join(wrong)}. It has: {have}")
    strangers = [role for role in (*choices.columns, *choices.new) if role not in (*Columns.__slots__, "priority")]
    if strangers:
        parts = ", ".join((*Columns.__slots__, "priority"))
        raise BadRequest(f"there is no part {', '.join(strangers)} for a column. There are: {parts}")


def _order_notes(order: Order, choices: AdoptOptions) -> list[str]:
    if order.priority is None or choices.lower_first:
        return []
    return [f"a higher {order.priority} goes first; if a lower one should, say --lower-first"]


def _count_notes(queue: QueueSpec[Any]) -> list[str]:
    if queue.counting == "attempts":
        return []
    name = queue.columns["attempts"].name
    return [f'{name} is taken for a count of failed tries; if it counts every try, leave out counts="failures"']


def _check_notes(facts: TableFacts, states: StateGuess) -> list[str]:
    """Add notes about CHECK constraints that tie the state to other columns, which a queue writes in its own way."""
    found = []
    for name, condition in facts.checks:
        tied = [column.name for column in facts.table.columns if named_in(condition, column.name)]
        if states.column in tied and len(tied) > 1:
            others = ", ".join(column for column in tied if column != states.column)
            found.append(
                f"constraint {name or condition} ties {states.column} to {others}: rows whose next state does not pass "
                "it can't be claimed or settled. Try the queue on a copy first"
            )
    return found


def _doubt_retries(
    found: Adoption, states: StateGuess, roles: Roles, choices: AdoptOptions, facts: TableFacts, evidence: RowEvidence
) -> None:
    """Add a doubt about rows that seem to have failed permanently, but have a time for a retry."""
    name = roles.names.get("available_at")
    if name is None or StateKind.DEAD in choices.words or StateKind.WAITING in choices.words:
        return
    column = facts.table.columns[name]
    numbers = isinstance(roles.types.get(name, column.type), NUMBERS)
    ahead = evidence.held([column], {name: roles.epoch if numbers else None})[name].of(StateKind.DEAD).ahead
    if not ahead:
        return
    if states.column is None:
        found.doubts.append(
            f"{ahead:,} rows that are taken for dead have a {name} ahead, as if they were to be tried again. Say which "
            "are dead with --dead-where SQL, and the other conditions with it; or --sure, if they are"
        )
        return
    words = states.words[StateKind.DEAD]
    found.doubts.append(
        f"{ahead:,} rows in state {', '.join(map(repr, words))}, which is taken for dead, have a {name} ahead, as if "
        f"they were to be tried again. Say --waiting {words[0]}, if such rows are retried: those without a {name} run "
        f"at once, as far as they have attempts left. Or --dead {words[0]}, if they are not"
    )


def _doubt_done_flags(
    found: Adoption, sql: QueueSql, facts: TableFacts, evidence: RowEvidence, flags: Mapping[str, str]
) -> None:
    """Add a doubt about rows that are ready by their state, but done by a flag."""
    for name, condition in flags.items():
        rows = evidence.how_many(_says(condition), StateKind.READY, StateKind.WAITING)
        if rows:
            done = sql.word(sql.queue.vocabulary.of(StateKind.DONE)[0])
            ready = sql.is_in(sql.queue.vocabulary.all_of(CLAIMABLE))
            found.doubts.append(
                f"{rows:,} rows are ready by their state, and {name} is set on them, as if they were done: they would "
                f"be worked on. If they are done: UPDATE {sql.table} SET {sql.state} = {done} WHERE {ready} AND "
                f"{condition}. If {name} means something else, say --sure"
            )


def _tell_held_back(found: Adoption, held: list[HeldBack], evidence: RowEvidence) -> None:
    for one in held:
        rows = evidence.how_many(_says(one.sql), StateKind.READY, StateKind.WAITING)
        found.notes.append(
            f"rows with {one.column} set are left out of every claim by where=... in the declaration; {rows:,} of them "
            "are ready now. If they are to be worked on, take it out"
        )


def _says(condition: str) -> "Callable[[Any], sa.ColumnElement[bool]]":
    return lambda rows: sa.literal_column(condition, sa.Boolean)


def _report_flags(found: Adoption, flags: Flags, evidence: RowEvidence) -> None:
    """Report how many rows get which state, and what happens to the flags."""
    found.doubts += flags.doubts
    if evidence.facts.empty or not flags.where:
        return
    counts = evidence.counts()
    parts = [f"{kind} where {flags.where[kind]}: {counts.get(kind, 0):,} rows" for kind in FIRST if kind in flags.where]
    if StateKind.READY not in flags.where:
        parts.append(f"ready otherwise: {counts.get(StateKind.READY, 0):,} rows")
    elif counts.get(None):
        parts.append(f"none of these: {counts[None]:,} rows, which get no state and are left alone")
    first = "" if evidence.facts.exact else " (of the rows that were looked at)"
    found.notes.append(f"the new state is filled from what rows hold{first}; the first that fits: {'; '.join(parts)}")
    if flags.columns:
        found.notes.append(
            f"the queue writes its state, not {', '.join(flags.columns)}: if something reads them, let your handler "
            "return them, as in {" + f'"{flags.columns[0]}": True' + "}"
        )


def _report_rows(found: Adoption, sql: QueueSql, facts: TableFacts, evidence: RowEvidence) -> None:
    """Report rows that are not in the form a queue leaves them in, and what happens to them. Same on both databases."""
    columns = {role: facts.table.columns.get(column.name) for role, column in sql.queue.columns.items()}
    attempts, error = columns["attempts"], columns["error"]
    if attempts is not None:
        own = columns.get("max_attempts")
        for step in sql.queue.steps:
            used_up = evidence.how_many(_used_up(sql, facts, step, attempts), StateKind.READY, StateKind.WAITING)
            if used_up:
                where = f"{sql.is_in(step.claimable)} AND {sql.used_up(step)}"
                most = (
                    f"{step.retry.attempts} attempts" if own is None else f"as many attempts as their {own.name} says"
                )
                found.notes.append(
                    f"{used_up:,} rows are ready that have had {most} or more: their next "
                    "claim buries them. Give the queue more with retry=rm.Retry(attempts=...). If they should run: "
                    f"UPDATE {sql.table} SET {sql.attempts} = 0 WHERE {where}"
                )
    if error is not None:
        left = evidence.held([error], {})[error.name].ready.filled
        if left:
            found.notes.append(
                f"{left:,} ready rows have an error of an earlier try in {error.name}: their next claim clears it"
            )
    found.notes += _zone_notes(sql, facts)
    _report_local_times(found, sql, facts, evidence)


def _used_up(
    sql: QueueSql, facts: TableFacts, step: Step, attempts: "sa.Column[Any]"
) -> "Callable[[Any], sa.ColumnElement[bool]]":
    state = sql.queue.columns["state"].name

    own = sql.queue.columns.get("max_attempts")

    def holds(rows: Any) -> "sa.ColumnElement[bool]":
        many: sa.ColumnElement[bool] = sa.func.coalesce(rows.c[attempts.name], 0) >= step.retry.attempts
        if own is not None and own.name in facts.table.columns:
            many = sa.literal_column(sql.used_up(step), sa.Boolean)
        if state not in facts.table.columns:
            return many
        return many & sa.cast(rows.c[state], sa.String).in_(_spelled(sql, step.claimable))

    return holds


def _report_local_times(found: Adoption, sql: QueueSql, facts: TableFacts, evidence: RowEvidence) -> None:
    """Report times without a zone that were written in local time: past events seem to lie in the future."""
    naive = {
        role: column
        for role, column in sql.queue.columns.items()
        if column.name in facts.table.columns
        and isinstance(kind := bare(column, sql.dialect), sa.DateTime)
        and (not kind.timezone or sql.dialect.name == "sqlite")
    }
    past = [
        facts.table.columns[naive[role].name]
        for role in ("created_at", "updated_at", "started_at", "finished_at")
        if role in naive
    ]
    held = evidence.held(past, {column.name: None for column in past})
    ahead = {name: one.every.ahead for name, one in held.items() if one.every.ahead}
    written = [column.name for column in naive.values() if _is_local(sql, facts, facts.table.columns[column.name])]
    created = naive.get("created_at")
    earlier = {} if created is None else {
        column.name: rows
        for column in past
        if (rows := evidence.hours_before(column.name, created.name))
    }  # fmt: skip
    if not ahead and not written and not earlier:
        return
    signs = [f"{name} lies ahead of the database's clock on {n:,} rows" for name, n in ahead.items()]
    signs += [
        f"{name} lies hours before {created.name} on {n:,} rows" for name, n in earlier.items() if created is not None
    ]
    signs += [f"{name} has a default in local time" for name in written]
    text = f"{'; '.join(signs)}: times seem to be written in local time, and a queue compares with UTC. "
    start = naive.get("available_at")
    if start is not None and evidence.held([facts.table.columns[start.name]], {})[start.name].ready.filled:
        name = sql.name(start)
        change = (
            f"datetime({name}, 'utc')"
            if sql.dialect.name == "sqlite"
            else f"{name} AT TIME ZONE current_setting('TimeZone') AT TIME ZONE 'UTC'"
        )
        found.doubts.append(
            f"{text}{start.name} would let rows run hours early or late. Write UTC from now on, and change what is "
            f"there: UPDATE {sql.table} SET {name} = {change}. If they are UTC after all, say --sure"
        )
    else:
        found.notes.append(f"{text}Write UTC from now on")


UTC = ("UTC", "Etc/UTC", "GMT")
NOW = r"\(*(now\(\)|current_timestamp|localtimestamp)(\(\d\))?\)*(::.*)?"


def _is_local(sql: QueueSql, facts: TableFacts, column: "sa.Column[Any]") -> bool:
    """Return whether the database itself writes local time to this column without a zone."""
    default = getattr(column.server_default, "arg", "")
    text = str(getattr(default, "text", default)).lower()
    if sql.dialect.name == "sqlite":
        return "localtime" in text
    return facts.zone not in UTC and re.fullmatch(NOW, text) is not None


def _zone_notes(sql: QueueSql, facts: TableFacts) -> list[str]:
    """Note timestamps without a zone. Rowmill reads them as UTC, but DEFAULT now() writes the time of the session's
    zone."""
    naive = [
        column.name
        for column in sql.queue.columns.values()
        if isinstance(kind := bare(column, sql.dialect), sa.DateTime)
        and not kind.timezone
        and column.name in facts.table.columns
    ]
    if sql.dialect.name != "postgresql" or not naive or facts.zone in UTC:
        return []
    return [
        f"{', '.join(naive)} have no time zone and are taken as UTC, but this database writes now() in {facts.zone}: "
        "make them timestamptz, or see that your code writes UTC"
    ]
