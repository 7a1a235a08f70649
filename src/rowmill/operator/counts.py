"""Counts rows: exactly where that is cheap, capped for thresholds, estimated on big tables. Each count says which."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

from rowmill.model.lifecycle import CLAIMABLE, StateKind
from rowmill.model.states import Step, Word
from rowmill.store.postgres.session import index_plans
from rowmill.store.queue_sql import LARGEST_INTEGER, QueueSql
from rowmill.store.state_words import UNKNOWN, StateWords

SMALL_BYTES = 64 * 1024 * 1024
"""A table of this size is counted in a fraction of a second."""
SMALL_ROWS = 1_000_000
"""The same on SQLite, by the span of its row numbers."""
PAGE = 8192
SAMPLE_PAGES = 1000
PROBES = 20_000
ENOUGH = 1000
"""The number of hits among the probes that is enough to estimate shares."""


def is_small(connection: Connection, sql: QueueSql) -> bool:
    """Return whether the table is small enough to be counted from end to end."""
    if connection.dialect.name == "postgresql":
        return _bytes(connection, sql) <= SMALL_BYTES
    span = _span(connection, sql)
    return span is None or span[1] <= SMALL_ROWS


def by_state(connection: Connection, sql: QueueSql) -> dict[Any, int] | None:
    """Estimate the rows in each state, by its raw value; None if that can't be done."""
    if connection.dialect.name == "postgresql":
        found = _by_statistics(connection, sql)
        if found is not None:
            return found
    states = sampled(connection, sql, sql.state)
    plain = StateWords(sql).plain
    return None if states is None else {plain(raw): rows for raw, rows in states.items()}


def sampled(connection: Connection, sql: QueueSql, wanted: str) -> dict[Any, int] | None:
    """Estimate the rows with each value of an SQL expression, from a random sample; None if that can't be done."""
    if connection.dialect.name == "postgresql":
        return _by_sample(connection, sql, wanted)
    return _by_probes(connection, sql, wanted)


def _bytes(connection: Connection, sql: QueueSql) -> int:
    # A partitioned table has no rows of its own: its leaves have.
    found = connection.exec_driver_sql(
        "SELECT coalesce((SELECT sum(pg_relation_size(relid)) FROM pg_partition_tree(t) WHERE isleaf), "
        f"pg_relation_size(t)) FROM to_regclass({sql.text(sql.table)}) AS t"
    ).scalar()
    return int(found or 0)


def _by_statistics(connection: Connection, sql: QueueSql) -> dict[Any, int] | None:
    """Estimate from the results of ANALYZE; None if there are none, or most rows changed since."""
    queue = sql.queue
    row = connection.exec_driver_sql(
        "SELECT c.reltuples, c.relpages, s.null_frac, s.most_common_vals::text::text[] AS common, "
        "s.most_common_freqs AS shares "
        "FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace "
        "JOIN pg_stats AS s ON s.schemaname = n.nspname AND s.tablename = c.relname "
        f"WHERE c.oid = to_regclass({sql.text(sql.table)}) AND NOT s.inherited AND c.relkind = 'r' "
        f"AND s.attname = {sql.text(queue.columns['state'].name)} AND c.reltuples > 0 AND c.relpages > 0 "
        "AND pg_stat_get_mod_since_analyze(c.oid) < c.reltuples / 10"
    ).first()
    if row is None or row.common is None:
        return None
    total = row.reltuples / row.relpages * (_bytes(connection, sql) / PAGE)
    state_words = StateWords(sql)
    raw_of = {str(raw): raw for raw in map(state_words.raw, state_words.words)}
    common = map(state_words.plain, row.common)
    found: dict[Any, int] = {
        raw_of.get(text, text): round(total * share) for text, share in zip(common, row.shares, strict=True)
    }
    if row.null_frac:
        found[None] = round(total * row.null_frac)
    return found


def _by_sample(connection: Connection, sql: QueueSql, wanted: str) -> dict[Any, int]:
    """Estimate from the rows of some random pages."""
    percent = min(100.0, 100.0 * SAMPLE_PAGES * PAGE / max(_bytes(connection, sql), 1))
    rows = connection.exec_driver_sql(
        f"SELECT {wanted}, count(*) FROM {sql.table} TABLESAMPLE SYSTEM ({percent!r}) GROUP BY 1"
    )
    return {value: round(count * 100.0 / percent) for value, count in rows}


def _by_probes(connection: Connection, sql: QueueSql, wanted: str) -> dict[Any, int] | None:
    """Estimate on SQLite from the rows at some random row numbers. None if few of these numbers are in use."""
    span = _span(connection, sql)
    if span is None:
        return None
    first, length = span
    rows = connection.exec_driver_sql(
        f"WITH RECURSIVE probe(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM probe LIMIT {PROBES}), "
        f"spot(at) AS MATERIALIZED (SELECT {first} + abs(random() % {length}) FROM probe) "
        f"SELECT {wanted}, count(*) FROM spot JOIN {sql.table} ON {sql.table}._rowid_ = spot.at GROUP BY 1"
    ).all()
    if sum(count for _, count in rows) < ENOUGH:
        return None
    return {value: round(count * length / PROBES) for value, count in rows}


def _span(connection: Connection, sql: QueueSql) -> tuple[int, int] | None:
    """Return the first row number and how far they reach; None for a table without row numbers."""
    try:
        # Each by itself: together they would read the whole table.
        first, last = connection.exec_driver_sql(
            f"SELECT (SELECT min(_rowid_) FROM {sql.table}), (SELECT max(_rowid_) FROM {sql.table})"
        ).one()
    except OperationalError:
        return None
    return None if first is None else (first, last - first + 1)


LEFT_OUT = "left_out"
"""The kind of ready rows that the filter of the queue leaves out."""
CAP = 10_000
"""The most unfinished rows of a big table that are counted by their indexes."""


class How(StrEnum):
    """How a count was made."""

    EXACT = "exact"
    CAPPED = "capped"
    """There are more than that."""
    ESTIMATED = "estimated"


@dataclass(frozen=True, slots=True)
class Depth:
    """Rows that wait to be worked on."""

    rows: int
    count: How


@dataclass(frozen=True, slots=True)
class StateCount:
    """Rows in one state."""

    word: str | None
    """The word in the table; None for rows without a state."""
    kind: str
    """What the word means; `other` or `unknown` for a word that is not the queue's; `left_out` for ready rows that its
    filter leaves out."""
    stage: str | None
    rows: int
    count: How


@dataclass(frozen=True, slots=True)
class RowCounts:
    """How many rows of a queue are in which state.

    counts = await articles.counts()
    counts.ready, counts.dead  # by what the words of the table mean
    counts["queued"]  # by a word of the table itself
    counts.exact  # False: the table is big, and some numbers are estimates
    """

    states: tuple[StateCount, ...]
    """Every word of the queue in the order of its lifecycle, then words that it does not know."""

    @property
    def ready(self) -> int:
        """The rows to work on. If the table has no word for waiting, they include those that wait for a retry."""
        return self._of(StateKind.READY)

    @property
    def waiting(self) -> int:
        """The rows that wait for a retry, if the table has a word for it."""
        return self._of(StateKind.WAITING)

    @property
    def running(self) -> int:
        return self._of(StateKind.RUNNING)

    @property
    def done(self) -> int:
        return self._of(StateKind.DONE)

    @property
    def dead(self) -> int:
        return self._of(StateKind.DEAD)

    @property
    def cancelled(self) -> int:
        return self._of(StateKind.CANCELLED)

    @property
    def unknown(self) -> int:
        """The rows without a state, or with a word that the queue does not know. Nobody claims them."""
        return self._of(UNKNOWN)

    @property
    def total(self) -> int:
        return sum(state.rows for state in self.states)

    @property
    def exact(self) -> bool:
        return all(state.count is How.EXACT for state in self.states)

    def __getitem__(self, word: str) -> int:
        found = [state.rows for state in self.states if state.word == word]
        if found:
            return sum(found)
        known = ", ".join(str(state.word) for state in self.states)
        raise KeyError(f"no row has the state {word}, and the queue does not know it. Counted: {known}")

    def _of(self, kind: str) -> int:
        return sum(state.rows for state in self.states if state.kind == kind)


# served by: the ready index of each stage, read from its end
def depth(connection: Connection, sql: QueueSql, at_least: int) -> Depth:
    """Count the rows that wait to be worked on, due or not, up to `at_least`. Takes milliseconds at any size, unless
    the queue's filter leaves most rows out."""
    found_by = [_last_ready(sql, step, "1", at_least + 1, sql.may_claim()) for step in sql.queue.steps]
    parts = [f"SELECT 1 FROM ({rows}) AS ready" for rows in found_by]
    statement = f"SELECT count(*) FROM (SELECT 1 FROM ({' UNION ALL '.join(parts)}) AS every LIMIT {at_least + 1}) AS t"
    with index_plans(connection):
        found = connection.exec_driver_sql(statement).scalar() or 0
    return Depth(min(found, at_least), How.CAPPED if found > at_least else How.EXACT)


# served by: the ready index and the running index of each stage
def has_work(connection: Connection, sql: QueueSql) -> bool:
    """Return whether a worker would find something: a row that is due, or one that runs, whose worker may have died."""
    found = []
    for step in sql.queue.steps:
        running = f"SELECT 1 FROM {sql.table} WHERE {sql.is_in(step.running)}{sql.part}"
        found.append(f"{running} ORDER BY {sql.role('leased_until')} LIMIT 1")
        due = [f"{sql.available_at} IS NULL", *([sql.due] if "available_at" in sql.queue.columns else [])]
        found += [_last_ready(sql, step, "1", 1, f"{sql.part}{sql.may_claim()} AND {moment}") for moment in due]
    parts = " UNION ALL ".join(f"SELECT 1 FROM ({rows}) AS part" for rows in found)
    with index_plans(connection):
        return connection.exec_driver_sql(f"SELECT 1 FROM ({parts}) AS work LIMIT 1").first() is not None


def _last_ready(sql: QueueSql, step: Step, wanted: str, limit: int, further: str = "") -> str:
    """Return a query for rows of a stage from the end of its ready index: claims leave dead entries at its beginning.
    `further` is a condition with its AND."""
    ready = sql.is_in(step.claimable) + further
    if sql.dialect.name == "sqlite":
        # No dead entries here. Asked for an order, SQLite may take an index of the table's own and sort.
        return f"SELECT {wanted} FROM {sql.table} WHERE {ready} LIMIT {int(limit)}"
    order = [] if sql.priority is None else [f"{sql.priority} {'DESC' if sql.queue.lower_first else 'ASC'}"]
    order.append(f"{sql.available_at} DESC" + (" NULLS LAST" if sql.nulls_first else ""))
    order += [f"{column} DESC" for column in sql.sequence]
    return f"SELECT {wanted} FROM {sql.table} WHERE {ready} ORDER BY {', '.join(order)} LIMIT {int(limit)}"


def counts(connection: Connection, sql: QueueSql, *, cap: int = CAP) -> list[StateCount]:
    """Count rows by state, in the order of the lifecycle. A big table is never counted from end to end: unfinished rows
    are counted by their indexes, the rest is estimated, and a rare state may be missed.

    Of a queue that claims only some of the table's rows, the ready rows that it leaves out are counted apart.
    """
    found = _counts(connection, sql, cap)
    return found if sql.queue.where is None else list(_parted(connection, sql, found, cap))


def _counts(connection: Connection, sql: QueueSql, cap: int) -> list[StateCount]:
    state_words = StateWords(sql)
    if is_small(connection, sql):
        return _listed(state_words, _by_state(connection, sql, sql.table), {})
    exact: dict[Any, int] = {}
    at_least: dict[Any, int] = {}
    with index_plans(connection):
        for words, found in _unfinished(sql, cap):
            rows = _by_state(connection, sql, f"({found}) AS found")
            if sum(rows.values()) <= cap:
                exact |= {state_words.raw(word): 0 for word in words} | rows
            else:
                at_least |= rows
    guessed = by_state(connection, sql)
    if guessed is None:
        return _listed(state_words, _by_state(connection, sql, sql.table), {})
    rest = {raw: max(rows, guessed.get(raw, 0)) for raw, rows in (guessed | at_least).items() if raw not in exact}
    return _listed(state_words, exact, rest)


# served by: the ready index of each stage
def _parted(connection: Connection, sql: QueueSql, found: Sequence[StateCount], cap: int) -> Iterator[StateCount]:
    """Divide the ready rows into those that this queue claims and those that its filter leaves out. If there are more
    than `cap`, the last ones in their order stand for all."""
    shares: dict[str, Fraction] = {}
    most = LARGEST_INTEGER if is_small(connection, sql) else cap + 1
    fits = f"coalesce(({sql.condition}), false) AS rowmill_fits"
    with index_plans(connection):
        for step in sql.queue.steps:
            rows = _last_ready(sql, step, f"{sql.state}, {fits}", most)
            every = _by_state(connection, sql, f"({rows}) AS found")
            unfit = _by_state(connection, sql, f"(SELECT * FROM ({rows}) AS every WHERE NOT rowmill_fits) AS found")
            shares |= {str(raw): Fraction(unfit.get(raw, 0), count) for raw, count in every.items()}
    left_out = []
    for state in found:
        others = round(state.rows * shares.get(str(state.word), Fraction(0)))
        yield replace(state, rows=state.rows - others)
        if state.kind in CLAIMABLE:
            left_out.append(replace(state, kind=LEFT_OUT, rows=others))
    yield from left_out


def _by_state(connection: Connection, sql: QueueSql, source: str) -> dict[Any, int]:
    statement = f"SELECT {sql.state}, count(*) FROM {source} GROUP BY {sql.state}"
    plain = StateWords(sql).plain
    return {plain(raw): rows for raw, rows in connection.exec_driver_sql(statement)}


# served by: the ready index of each stage, and the index on running rows
def _unfinished(sql: QueueSql, cap: int) -> Iterator[tuple[Sequence[Word], str]]:
    for step in sql.queue.steps:
        yield step.claimable, _last_ready(sql, step, sql.state, cap + 1)
    running = sql.queue.vocabulary.of(StateKind.RUNNING)
    yield (
        running,
        f"SELECT {sql.state} FROM {sql.table} WHERE {sql.is_in(running)} "
        f"ORDER BY {sql.leased_until} DESC LIMIT {int(cap) + 1}",
    )


def _listed(state_words: StateWords, exact: dict[Any, int], guessed: dict[Any, int]) -> list[StateCount]:
    """Return the count of every word of the queue, with or without rows, then of unknown words."""
    known = [state_words.raw(word) for word in state_words.words]
    rows = dict.fromkeys(known, 0) | exact | guessed
    unknown = sorted((raw for raw in rows if raw not in known), key=str)
    whole = not guessed
    found = []
    for raw in [*known, *unknown]:
        word = state_words.word(raw)
        step = None if word is None else state_words.vocabulary.step_of(word)
        found.append(
            StateCount(
                word=None if raw is None else str(raw),
                kind=state_words.meaning(raw),
                stage=None if step is None else step.name,
                rows=rows[raw],
                count=How.EXACT if whole or raw in exact else How.ESTIMATED,
            )
        )
    return found
