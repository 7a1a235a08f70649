"""Plan the migration: what a table lacks to be a queue, as steps in order."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Connection

from rowmill.adopt.evidence import FIRST
from rowmill.adopt.guess import allowed_words, words_of_check, words_of_domain
from rowmill.adopt.steps import Fill, MigrationPlan, MigrationStep, StepKind
from rowmill.adopt.table_facts import DOMAINS, TableFacts, samples
from rowmill.adopt.times import sorts_wrongly
from rowmill.model.declare import NULLABLE
from rowmill.model.errors import MESSAGE_LENGTH
from rowmill.model.lifecycle import UNFINISHED, StateKind
from rowmill.model.states import Word
from rowmill.store import indexes
from rowmill.store.expressions import in_words
from rowmill.store.indexes import IndexState, bare_name, index_states, queue_indexes
from rowmill.store.own import schema
from rowmill.store.queue_sql import QueueSql, bare
from rowmill.store.table_checks import key_problem

# Words of a queue that an enum type or a CHECK does not take yet.


def word_text(sql: QueueSql, word: Word) -> str:
    """Return a word as the database stores it: its literal without the quotes."""
    literal = sql.word(word)
    return literal[1:-1].replace("''", "'") if literal.startswith("'") else literal


def words_there(sql: QueueSql, facts: TableFacts, words: Iterable[Word]) -> list[Word]:
    """Return the words that the state's enum type has. A statement with another word would fail."""
    state = facts.table.columns.get(sql.queue.columns["state"].name)
    if state is None or not isinstance(state.type, sa.Enum):
        return list(words)
    return [word for word in words if word_text(sql, word) in state.type.enums]


def texts_of(sql: QueueSql) -> list[str]:
    """Return every word of the queue as the database stores it."""
    return list(dict.fromkeys(word_text(sql, word) for word, _ in sql.queue.vocabulary.meanings()))


def refuse_words(connection: Connection, plan: MigrationPlan, sql: QueueSql, facts: TableFacts) -> None:
    """Add obstacles for words that a domain rejects, or that are missing in the table to which the state refers. The
    migration does not change either."""
    state = facts.table.columns.get(sql.queue.columns["state"].name)
    if state is None:
        return
    words = texts_of(sql)
    allowed = words_of_domain(state)
    lacking = [word for word in words if allowed and word not in allowed]
    if lacking:
        domain = state.info[DOMAINS][0]
        name = f"{sql.quote(domain.schema)}." if domain.schema else ""
        name += sql.quote(domain.name)
        listed = ", ".join(map(sql.text, dict.fromkeys([*allowed, *words])))
        plan.obstacles.append(
            f"domain {domain.name} of column {state.name} does not allow {', '.join(map(sql.text, lacking))}: use "
            f"words that it allows, or change it: ALTER DOMAIN {name} DROP CONSTRAINT {domain.constraint_name}; "
            f"ALTER DOMAIN {name} ADD CHECK (VALUE IN ({listed}))"
        )
    for key in state.foreign_keys:
        schema_name, table, column = _target(key)
        if not sa.inspect(connection).has_table(table, schema=schema_name):
            continue
        target = sa.table(table, sa.column(column), schema=schema_name)
        value = sa.cast(target.c[column], sa.String)
        known = set(connection.scalars(sa.select(value).where(value.in_(words))))
        lacking = [word for word in words if word not in known]
        if lacking:
            plan.obstacles.append(
                f"column {state.name} refers to {key.target_fullname}, which does not have {', '.join(lacking)}: add "
                "rows for them to it, or use words that it has"
            )


def _target(key: "sa.ForeignKey") -> tuple[str | None, str, str]:
    """Return schema, table and column that a foreign key refers to."""
    *schema_name, table, column = key.target_fullname.split(".")
    return ".".join(schema_name) or None, table, column


def allow_words(plan: MigrationPlan, sql: QueueSql, facts: TableFacts, postgres: bool) -> Iterator[MigrationStep]:
    """Add steps for words that an enum type or a CHECK does not allow yet."""
    state = facts.table.columns.get(sql.queue.columns["state"].name)
    if state is None or words_of_domain(state):
        return
    allowed = [str(word) for word in allowed_words(facts, state)]
    words = texts_of(sql)
    quote: Callable[[str], str] = str if isinstance(state.type, sa.Integer) else sql.text
    lacking = [quote(word) for word in words if word not in allowed]
    if not allowed or not lacking:
        return
    listed = ", ".join(lacking)
    if isinstance(state.type, sa.Enum) and postgres:
        kind = sql.preparer.format_type(state.type)  # type: ignore[attr-defined]
        yield MigrationStep(
            StepKind.WORD,
            f"type {kind} does not have {listed}",
            tuple(f"ALTER TYPE {kind} ADD VALUE IF NOT EXISTS {literal}" for literal in lacking),
            alone=True,
        )
        return
    name, condition = next(check for check in facts.checks if words_of_check(check[1], state.name))
    if not postgres or name is None:
        plan.obstacles.append(
            f"a CHECK of table {facts.table.name} does not allow {listed}, and SQLite can't change it: rebuild the "
            "table (Alembic's batch_alter_table does), or use words that it allows"
        )
        return
    quoted = sql.quote(name)
    everything = f"{sql.state} IN ({', '.join(map(quote, dict.fromkeys([*allowed, *words])))})"
    yield MigrationStep(
        StepKind.WORD,
        f"constraint {name} does not allow {listed}",
        (
            f"ALTER TABLE {sql.table} DROP CONSTRAINT {quoted}, ADD CONSTRAINT {quoted} CHECK ({everything}) NOT VALID",
            f"ALTER TABLE {sql.table} VALIDATE CONSTRAINT {quoted}",
        ),
        (f"ALTER TABLE {sql.table} DROP CONSTRAINT {quoted}, ADD CONSTRAINT {quoted} CHECK ({condition}) NOT VALID",),
    )


# What rows that are there already must be given, so that none is lost, repeated, or taken for stuck.


def fills(
    connection: Connection,
    sql: QueueSql,
    facts: TableFacts,
    missing: Mapping[str, "Column[Any]"],
    where: Mapping[StateKind, str],
    *,
    unfilled: bool,
) -> Iterator[tuple[str, Fill]]:
    """Yield the updates of existing rows: (what is wrong, what to write). `where` gives the rows in each state, if
    they have none yet."""
    if unfilled:
        yield from _states(sql, facts, where, connection.dialect.name == "postgresql")
    if "state" in missing and facts.empty:
        return
    if not unfilled or StateKind.RUNNING in where:
        yield from _leases(connection, sql, facts, missing, unfilled=unfilled)
    if "attempts" not in missing:
        yield from _attempts(connection, sql, facts, unfilled=unfilled)
    for role in ("available_at", "leased_until"):
        if role not in missing and connection.dialect.name == "sqlite":
            yield from _times(connection, sql, facts, role, unfilled=unfilled)


def _fill(facts: TableFacts, sets: str, where: str, *, walk: bool) -> Fill:
    return Fill(facts.table.name, facts.table.schema, sets, where, walk)


def _states(
    sql: QueueSql, facts: TableFacts, where: Mapping[StateKind, str], postgres: bool
) -> Iterator[tuple[str, Fill]]:
    """Yield the CASE that sets states: the first matching condition counts. A row without a match is ready; if there
    is a condition for ready too, it gets no state and is ignored."""
    words = {kind: sql.word(sql.queue.vocabulary.of(kind)[0]) for kind in where if sql.queue.vocabulary.of(kind)}
    ready = sql.word(sql.queue.steps[0].ready[0])
    whens = " ".join(f"WHEN ({where[kind]}) THEN {words[kind]}" for kind in FIRST if kind in words)
    rest = "NULL" if StateKind.READY in where else ready
    value = f"CASE {whens} ELSE {rest} END" if whens else rest
    if postgres:
        yield "rows have no state yet", _fill(facts, f"{sql.state} = {value}", f"{sql.state} IS NULL", walk=True)
        return
    # The new column's default made every row ready, in this same transaction.
    others = [f"({where[kind]})" for kind in FIRST if kind in words and kind is not StateKind.READY]
    if StateKind.READY in where:
        others.append(f"NOT coalesce(({where[StateKind.READY]}), false)")
    if others:
        changed = f"{sql.state} = {ready} AND ({' OR '.join(others)})"
        yield "rows that are not ready have no state yet", _fill(facts, f"{sql.state} = {value}", changed, walk=False)


def _leases(
    connection: Connection, sql: QueueSql, facts: TableFacts, missing: Mapping[str, "Column[Any]"], *, unfilled: bool
) -> Iterator[tuple[str, Fill]]:
    """Yield the update that gives a lease to rows in progress. They may belong to another process, and are rescued
    only after the lease expires."""
    for step in sql.queue.steps:
        until = sql.later("leased_until", repr(float(step.lease)))
        without = f"{sql.leased_until} IS NULL"
        if "lease" in missing and "leased_until" not in missing:
            # An end of a lease that the table's own code wrote, and may not have kept to.
            without = f"({without} OR {sql.leased_until} < {sql.now('leased_until')})"
        where = f"{sql.is_in(step.running)} AND {without}"
        known = not unfilled and "leased_until" not in missing and not facts.elsewhere
        if known and not words_there(sql, facts, step.running):
            continue
        if known and not _any_running_without(connection, sql, facts, where):
            continue
        many = f"{_count(connection, facts, where):,} " if known and facts.exact else ""
        words = ", ".join(map(str, step.running))
        what = (
            f"{many}rows in progress ({words}) have no lease: they get one of {step.lease:g} s, and are rescued after"
        )
        yield what, _fill(facts, f"{sql.leased_until} = {until}", where, walk=False)


def _any_running_without(connection: Connection, sql: QueueSql, facts: TableFacts, where: str) -> bool:
    """Return whether there are such rows, if that is quick to find out; otherwise True."""
    if not facts.exact:
        running = [index for index in queue_indexes(sql) if index.serves == "rescue"]
        if index_states(connection, sql, running)[running[0].name] is not IndexState.GOOD:
            return True
    some = sa.select(sa.literal(1)).select_from(facts.table).where(sa.literal_column(where)).limit(1)
    return connection.scalar(some) is not None


def _count(connection: Connection, facts: TableFacts, where: str) -> int:
    rows = sa.select(sa.func.count()).select_from(facts.table).where(sa.literal_column(where))
    return connection.scalar(rows) or 0


def _attempts(
    connection: Connection, sql: QueueSql, facts: TableFacts, *, unfilled: bool
) -> Iterator[tuple[str, Fill]]:
    column = facts.table.columns[sql.queue.columns["attempts"].name]
    if not column.nullable:
        return
    unfinished = sql.queue.vocabulary.all_of(UNFINISHED)
    if unfilled:
        where = f"{sql.is_in(unfinished)} AND {sql.attempts} IS NULL"
        yield "rows have no count of attempts", _fill(facts, f"{sql.attempts} = 0", where, walk=True)
        return
    state = facts.table.columns[sql.queue.columns["state"].name]
    texts = [word_text(sql, word) for word in unfinished]
    for sample in samples(facts.table, [column], lambda rows: _is_one_of(rows.c[state.key], texts)):
        found = sample.subquery()
        seen = connection.scalar(sa.select(sa.literal(1)).where(found.c[column.key].is_(None)).limit(1))
        if seen or facts.elsewhere:
            where = f"{sql.is_in(unfinished)} AND {sql.attempts} IS NULL"
            yield "rows have no count of attempts", _fill(facts, f"{sql.attempts} = 0", where, walk=True)
            return


def _is_one_of(column: Any, words: list[str]) -> "sa.ColumnElement[bool]":
    return sa.cast(column, sa.String).in_(words)


def _times(
    connection: Connection, sql: QueueSql, facts: TableFacts, role: str, *, unfilled: bool
) -> Iterator[tuple[str, Fill]]:
    """Yield the update of times in SQLite that are in another text format. SQLite compares times as text."""
    column = sql.queue.columns[role]
    if not isinstance(bare(column, sql.dialect), sa.DateTime):
        return
    kinds = {StateKind.READY, StateKind.WAITING} if role == "available_at" else {StateKind.RUNNING}
    waiting = in_words(sql, sql.queue.vocabulary.all_of(frozenset(kinds)))
    found = facts.table.columns[column.name]
    raw = sa.type_coerce(found, sa.types.NullType())
    conditions = [found.is_not(None)] if unfilled else [waiting, found.is_not(None)]
    values = connection.scalars(sa.select(raw).where(*conditions).limit(2000))
    if not any(sorts_wrongly(value) for value in values):
        return
    name = sql.name(column)
    words = sql.is_in(sql.queue.vocabulary.all_of(frozenset(kinds)))
    other = f"(substr({name}, 11, 1) = 'T' OR substr({name}, 20) LIKE '%+%' OR substr({name}, 20) LIKE '%-%')"
    sets = f"{name} = coalesce(strftime('%Y-%m-%d %H:%M:%f000', {name}), {name})"
    where = f"{words} AND {other} AND strftime('%s', {name}) IS NOT NULL"
    yield f"times in {column.name} are written so that they sort wrongly", _fill(facts, sets, where, walk=True)


# Columns that a table lacks, or has too narrow.


UNFILLED = "rowmill: rows without a state are not filled yet"
"""Comment on a state column that was just added."""


def missing_columns(plan: MigrationPlan, sql: QueueSql, facts: TableFacts) -> dict[str, "Column[Any]"]:
    """Add steps for columns of the queue that the table lacks. Return them by role."""
    there = {column.name for column in facts.table.columns}
    parts = dict(sql.queue.columns)
    missing = {role: column for role, column in parts.items() if column.name not in there}
    ours = {column.name for column in parts.values()}
    for column in sql.queue.table.columns:
        if column.name not in there and column.name not in ours:
            plan.obstacles.append(
                f"table {facts.table.name} lacks column {column.name}, which your code has and which is none of the "
                "queue's: add it with a migration of your own"
            )
    return missing


def add_columns(
    sql: QueueSql, facts: TableFacts, missing: dict[str, "Column[Any]"], postgres: bool
) -> Iterator[MigrationStep]:
    if not missing:
        return
    definitions = {role: _definition(sql, role, column, facts, postgres) for role, column in missing.items()}
    names = ", ".join(column.name for column in missing.values())
    what = f"column {names} is missing" if len(missing) == 1 else f"columns {names} are missing"
    if postgres:
        parts = [f"ADD COLUMN IF NOT EXISTS {definition}" for definition in definitions.values()]
        if "state" in missing:
            # Rows that are there stay NULL, which nobody claims, until the fill below tells done from ready.
            ready = sql.word(sql.queue.steps[0].ready[0])
            parts.append(f"ALTER COLUMN {sql.state} SET DEFAULT {ready}")
        drops = ", ".join(f"DROP COLUMN IF EXISTS {sql.name(column)}" for column in missing.values())
        add = f"ALTER TABLE {sql.table} {', '.join(parts)}"
        if "state" in missing and not facts.empty:
            # Both or neither: without the mark, nobody would know that a fill was cut short.
            add = _block(f"BEGIN {add}; {_mark(sql, sql.text(UNFILLED))}; END")
        yield MigrationStep(StepKind.COLUMN, what, (add,), (f"ALTER TABLE {sql.table} {drops}",))
    else:
        adds = tuple(f"ALTER TABLE {sql.table} ADD COLUMN {text}" for text in definitions.values())
        drop = tuple(f"ALTER TABLE {sql.table} DROP COLUMN {sql.name(column)}" for column in missing.values())
        yield MigrationStep(StepKind.COLUMN, what, adds, drop)


def _block(body: str) -> str:
    """Wrap statements in an anonymous block, with a quote mark that they do not contain."""
    mark = next(mark for mark in (f"$rowmill{n or ''}$" for n in count()) if mark not in body)
    return f"DO {mark} {body} {mark}"


def _mark(sql: QueueSql, comment: str) -> str:
    return f"COMMENT ON COLUMN {sql.table}.{sql.state} IS {comment}"


def filled(sql: QueueSql) -> MigrationStep:
    """Remove the mark of a new state column after all rows have their state."""
    return MigrationStep(
        StepKind.COLUMN, f"column {sql.queue.columns['state'].name} is marked as unfilled", (_mark(sql, "NULL"),)
    )


def _definition(sql: QueueSql, role: str, column: "Column[Any]", facts: TableFacts, postgres: bool) -> str:
    """Return the column definition for ADD COLUMN. It avoids a table rewrite: NULL, or a constant default."""
    kind = column.type.compile(sql.dialect)
    text = f"{sql.name(column)} {kind}"
    if role == "attempts":
        return f"{text} NOT NULL DEFAULT 0" if not column.nullable else f"{text} DEFAULT 0"
    if role == "state":
        ready = sql.word(sql.queue.steps[0].ready[0])
        return text if postgres else f"{text} {'' if column.nullable else 'NOT NULL '}DEFAULT {ready}"
    default = _default(sql, column) if postgres else None
    if default is None:
        return text
    return f"{text} {'' if column.nullable else 'NOT NULL '}DEFAULT {default}"


def _default(sql: QueueSql, column: "Column[Any]") -> str | None:
    # Without the table: to compile that, SQLAlchemy wants every table that it refers to.
    compile_ddl: Any = sql.dialect.ddl_compiler
    found: str | None = compile_ddl(sql.dialect, None).get_column_default_string(column)
    return found


def loosen_columns(plan: MigrationPlan, sql: QueueSql, facts: TableFacts, postgres: bool) -> Iterator[MigrationStep]:
    """Add steps for existing columns that are too narrow for what the queue writes."""
    for role, column in sql.queue.columns.items():
        found = facts.table.columns.get(column.name)
        if found is None:
            continue
        name = sql.name(column)
        if role in NULLABLE and not found.nullable:
            if postgres:
                yield MigrationStep(
                    StepKind.COLUMN,
                    f"column {column.name} ({role}) does not allow NULL, and is empty most of the time",
                    (f"ALTER TABLE {sql.table} ALTER COLUMN {name} DROP NOT NULL",),
                )
            else:
                plan.obstacles.append(
                    f"column {column.name} ({role}) does not allow NULL, and SQLite can't change that: map another"
                )
        if role == "lease" and not isinstance(bare(found, sql.dialect), sa.BigInteger):
            plan.obstacles.append(
                f"column {column.name} (lease) is {found.type}: tokens need a bigint. Map another column"
            )
        length = found.type.length if isinstance(found.type, sa.String) else None
        needed = MESSAGE_LENGTH if role == "error" else max(map(len, texts_of(sql))) if role == "state" else 0
        if postgres and length is not None and length < needed and not isinstance(found.type, sa.Enum):
            if column.name in facts.bound:
                _refuse_to_widen(plan, role, column, length)
                continue
            yield MigrationStep(
                StepKind.COLUMN,
                f"column {column.name} ({role}) takes {length} characters; {needed} may be written",
                (f"ALTER TABLE {sql.table} ALTER COLUMN {name} TYPE text",),
                (f"ALTER TABLE {sql.table} ALTER COLUMN {name} TYPE varchar({length}) USING left({name}, {length})",),
            )


def _refuse_to_widen(plan: MigrationPlan, role: str, column: "Column[Any]", length: int) -> None:
    declared = getattr(column.type, "length", None)
    if role == "error" and declared is not None and declared <= length:
        return  # what is written is cut to it
    way = f"declare it as String({length}), and errors are cut to it" if role == "error" else (
        "use shorter words (--running WORD and the like)"
    )  # fmt: skip
    plan.obstacles.append(
        f"column {column.name} ({role}) takes only {length} characters, and its type can't be changed while a view, a "
        f"rule, a policy, a trigger or a computed column names it: {way}, or drop that first"
    )


def not_null(sql: QueueSql, column: str) -> MigrationStep:
    """Set NOT NULL without a long lock: a validated CHECK proves it, so that SET NOT NULL does not scan the table."""
    proof = sql.quote("rowmill_state_is_known")
    return MigrationStep(
        StepKind.COLUMN,
        f"column {column} must not be NULL",
        (
            f"ALTER TABLE {sql.table} ADD CONSTRAINT {proof} CHECK ({column} IS NOT NULL) NOT VALID",
            f"ALTER TABLE {sql.table} VALIDATE CONSTRAINT {proof}",
            f"ALTER TABLE {sql.table} ALTER COLUMN {column} SET NOT NULL",
            f"ALTER TABLE {sql.table} DROP CONSTRAINT {proof}",
        ),
    )


# Indexes that a table lacks, or that are not what the queue needs.


def make_indexes(
    connection: Connection, plan: MigrationPlan, sql: QueueSql, facts: TableFacts
) -> Iterator[MigrationStep]:
    """Add a step for each missing or wrong index. On a big table, it is built without blocking writers."""
    wanted = indexes.queue_indexes(sql)
    states = index_states(connection, sql, wanted)
    postgres = connection.dialect.name == "postgresql"
    concurrently = postgres and facts.big and not facts.partitioned
    how = "CONCURRENTLY " if concurrently else ""
    prefix = sql.quote(facts.table.schema) + "." if postgres and facts.table.schema else ""
    for index in wanted:
        create = index.create(sql.table, concurrently=concurrently)
        drop = f"DROP INDEX {how}IF EXISTS {prefix}{index.name}"
        # IF NOT EXISTS would find an index that is no good, and leave it.
        again = (drop, create)
        name = f"index {bare_name(index)} ({index.serves})"
        match states[index.name]:
            case IndexState.GOOD:
                pass
            case IndexState.BUILDING:
                plan.obstacles.append(f"{name} is being made right now by somebody else: wait for it")
            case IndexState.MISSING:
                yield MigrationStep(StepKind.INDEX, f"{name} is missing", (create,), (drop,), alone=concurrently)
            case IndexState.INVALID:
                what = f"{name} is invalid: an attempt to make it failed"
                yield MigrationStep(StepKind.INDEX, what, again, (drop,), alone=concurrently)
            case IndexState.OTHER:
                what = f"{name} was made for other words or columns"
                yield MigrationStep(StepKind.INDEX, what, again, (drop,), alone=concurrently)


def make_plan(
    connection: Connection,
    sql: QueueSql,
    facts: TableFacts,
    where: Mapping[StateKind, str] | None = None,
    *,
    declared: bool = False,
) -> MigrationPlan:
    """Compare what the queue needs with what the database has. `where` gives the rows in each state, for a table whose
    state column is added now. The key of a `declared` queue need not be the table's primary key."""
    plan = MigrationPlan()
    if not facts.is_table:
        plan.obstacles.append(f"{facts.table.name} is a view or a foreign table: adopt the table behind it")
        return plan
    if not facts.table.primary_key.columns and not declared:
        plan.obstacles.append(
            f"table {facts.table.name} has no primary key: a row could not be told from another. Give it one, as in: "
            f"ALTER TABLE {sql.table} ADD COLUMN id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
        )
        return plan
    if facts.children:
        plan.obstacles.append(
            f"tables {', '.join(facts.children)} inherit from {facts.table.name}, and their rows are visible in it. No "
            "key is unique over all of them: adopt the tables that hold the rows, or make them partitions"
        )
        return plan
    problem = key_problem(connection, sql)
    if problem is not None:
        plan.obstacles.append(f"{problem.what}. Mend it: {problem.fix}")
        return plan
    postgres = connection.dialect.name == "postgresql"
    plan.changes += allow_words(plan, sql, facts, postgres)
    refuse_words(connection, plan, sql, facts)
    missing = missing_columns(plan, sql, facts)
    plan.changes += add_columns(sql, facts, missing, postgres)
    plan.changes += loosen_columns(plan, sql, facts, postgres)
    if facts.own_version != schema.VERSION:
        own = schema.statements(connection.dialect, facts.own_version or 0)
        plan.changes.append(MigrationStep(StepKind.OWN, _own(facts.own_version), tuple(own)))
    plan.changes += make_indexes(connection, plan, sql, facts)
    if postgres and not indexes.has_wake_trigger(connection, sql):
        plan.changes.append(
            MigrationStep(
                StepKind.TRIGGER,
                "no trigger wakes a sleeping worker when rows come in",
                tuple(indexes.wake_trigger(sql)),
                (f"DROP TRIGGER IF EXISTS rowmill_wake ON {sql.table}",),
            )
        )
    state = facts.table.columns.get(sql.queue.columns["state"].name)
    unfilled = not facts.empty and (state is None or state.comment == UNFILLED)
    for what, fill in fills(connection, sql, facts, missing, where or {}, unfilled=unfilled):
        plan.changes.append(MigrationStep(StepKind.ROWS, what, (fill.statement(sql.table),), fill=fill))
    if unfilled and postgres:
        if not sql.queue.columns["state"].nullable:
            plan.changes.append(not_null(sql, sql.state))
        plan.changes.append(filled(sql))
    return plan


def _own(found: int | None) -> str:
    if found is None:
        return "Rowmill's own tables are not there yet"
    return f"Rowmill's own tables are at version {found}, this code needs {schema.VERSION}"
