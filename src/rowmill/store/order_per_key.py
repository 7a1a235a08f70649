"""SQL about order that both databases share: the priorities that exist, and free rows in queues with order per key.

The head of a key is the row that has to end before any other of the key begins: the one that runs, if one does, or else
the first unfinished one. The in-order index has it first.

Names for parts of a query begin with rowmill_: one like that of the user's table would hide the table.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

from rowmill.model.lifecycle import StateKind
from rowmill.model.states import Step
from rowmill.store.queue_sql import QueueSql


@dataclass(frozen=True, slots=True)
class Start:
    """Where a search for free rows starts."""

    at_once: str = ""
    """A further condition, with its AND, for rows that are available at once."""
    timed: str = ""
    """A further condition, with its AND, for rows whose time has come."""
    behind: str = ""
    """The parameter with the key behind which a walk over all keys starts."""


AT_THE_BEGINNING = Start()
Finder = Callable[[QueueSql, Step, str, Start], str]
"""Returns a query for the keys of free rows, limited by the given parameter."""

LEAST_DEPTH, DEPTH_PER_ROW = 200, 2
"""How many of the oldest ready rows are looked at before the head of every key is: so many at least, and so many per
wanted row."""


# served by: the ready index, one descent per priority
def priorities(sql: QueueSql, step: Step) -> str:
    """Select the priorities of claimable rows, first to last."""
    level, ready = sql.priority, sql.is_in(step.claimable)
    direction = sql.priority_direction
    beyond = ">" if sql.queue.lower_first else "<"
    first = f"SELECT {level} AS p FROM {sql.table} WHERE {ready} ORDER BY {level} {direction} LIMIT 1"
    following = (
        f"SELECT {level} FROM {sql.table} WHERE {ready} AND {level} {beyond} rowmill_level.p "
        f"ORDER BY {level} {direction} LIMIT 1"
    )
    return (
        f"WITH RECURSIVE rowmill_level(p) AS (SELECT p FROM ({first}) AS top "
        f"UNION ALL SELECT ({following}) FROM rowmill_level WHERE rowmill_level.p IS NOT NULL) "
        "SELECT p FROM rowmill_level WHERE p IS NOT NULL"
    )


# served by: the ready index for the candidates, the in-order index for the head of each one's key
def oldest_free(sql: QueueSql, step: Step, limit: str, start: Start = AT_THE_BEGINNING) -> str:
    """Select the keys of free rows, oldest first: heads of their key, and rows without a key.

    Only the oldest candidate of a key can be free, so only it is compared with the head of its key. To find a head, the
    database reads the dead entries that its key has left in the index while an old transaction is open.
    """
    per = _per(sql)
    priority = sql.queue.priority
    # Without priorities the two lanes are in order as they stand: what is available at once, then the rest.
    placed_by = [] if priority is None else [sql.name(priority), sql.available_at, *sql.sequence]
    place = f"row_number() OVER ({f'ORDER BY {sql.order}' if placed_by else ''}) AS rowmill_place"
    wanted = ", ".join(dict.fromkeys([*sql.keys, per, *sql.per_sequence, *placed_by]))
    oldest = [
        f"SELECT * FROM ({rows}) AS lane_{number}"
        for number, rows in enumerate(ready(sql, step, wanted, f"LIMIT {_depth(limit)}", start))
    ]
    turn = f"row_number() OVER (PARTITION BY {per} ORDER BY {', '.join(sql.per_sequence)}) AS rowmill_turn"
    candidates = f"SELECT *, {turn} FROM (SELECT *, {place} FROM ({' UNION ALL '.join(oldest)}) AS oldest) AS placed"
    keys = ", ".join(f"rowmill_candidate.{key} AS {key}" for key in sql.keys)
    # Sorted first, so that no more heads are looked at than rows are wanted.
    firsts = f"SELECT * FROM ({candidates}) AS turned WHERE rowmill_turn = 1 OR {per} IS NULL ORDER BY rowmill_place"
    return (
        f"SELECT {keys} FROM ({firsts}) AS rowmill_candidate WHERE {_is_free(sql)} ORDER BY rowmill_place LIMIT {limit}"
    )


def ready(sql: QueueSql, step: Step, wanted: str, portion: str, start: Start) -> list[str]:
    """Return queries for a portion of the ready rows, oldest first: one for rows available at once, one for rows whose
    time has come."""
    mine = sql.may_claim()
    return [
        f"SELECT {wanted} FROM {sql.table} WHERE {sql.is_in(step.claimable)}{sql.part}{mine} AND {available} "
        f"ORDER BY {sql.order} {portion}"
        for available in (f"{sql.available_at} IS NULL{start.at_once}", sql.due + start.timed)
    ]


def _depth(limit: str) -> str:
    return f"({limit}) * {DEPTH_PER_ROW} + {LEAST_DEPTH}"


# served by: the in-order index, two descents per key
def free_heads(sql: QueueSql, step: Step, limit: str, start: Start = AT_THE_BEGINNING) -> str:
    """Select the rows that are the head of their key, for when the oldest rows are all held back. Selects nothing if
    `oldest_free` has looked at every ready row."""
    per = _per(sql)
    holding = sql.is_in(sql.holding)
    begin = f"{per} > {start.behind}" if start.behind else f"{per} IS NOT NULL"
    first = f"SELECT {per} AS p FROM {sql.table} WHERE {holding} AND {begin} ORDER BY {per} LIMIT 1"
    following = f"SELECT {per} FROM {sql.table} WHERE {holding} AND {per} > rowmill_every.p ORDER BY {per} LIMIT 1"
    claimable = sql.is_in(step.claimable) + sql.part + sql.may_claim()
    is_ready = f"{claimable} AND ({sql.available_at} IS NULL OR {sql.due})"
    parts = [(_head(sql, "rowmill_every.p", f"CASE WHEN {is_ready} THEN {key} END"), key) for key in sql.keys]
    heads = ", ".join(f"{head} AS {key}" for head, key in parts)
    return (
        f"WITH RECURSIVE rowmill_every(p) AS (SELECT p FROM ({first}) AS top WHERE {_more(sql, step, limit, start)} "
        f"UNION ALL SELECT ({following}) FROM rowmill_every WHERE rowmill_every.p IS NOT NULL) "
        f"SELECT {', '.join(sql.keys)} FROM (SELECT {heads} FROM rowmill_every WHERE p IS NOT NULL) AS head "
        f"WHERE {sql.keys[0]} IS NOT NULL LIMIT {limit}"
    )


def _more(sql: QueueSql, step: Step, limit: str, start: Start) -> str:
    """Return the condition that there are more ready rows than `oldest_free` looks at."""
    further = ready(sql, step, "1", f"LIMIT 1 OFFSET {_depth(limit)}", start)
    return f"({' OR '.join(f'EXISTS ({row})' for row in further)})"


def _is_free(sql: QueueSql) -> str:
    """Return the condition that rowmill_candidate is the head of its key, or has no key."""
    per, this = _per(sql), ", ".join(f"rowmill_candidate.{key}" for key in sql.keys)
    head = _head(sql, f"rowmill_candidate.{per}", ", ".join(sql.keys))
    return f"rowmill_candidate.{per} IS NULL OR ({this}) = {head}"


def can_be_claimed(sql: QueueSql, step: Step) -> str:
    """Return the condition that a claim would take rowmill_candidate, a row looked up by its primary key. Its form
    proves nothing to the planner, which might otherwise walk a whole partial index instead of the primary key's."""
    state = sql.is_in(step.claimable, "rowmill_candidate.")
    available = f"rowmill_candidate.{sql.available_at} IS NULL OR rowmill_candidate.{sql.due}"
    claimable = f"coalesce({state} AND ({available}){sql.may_claim('rowmill_candidate.')}, false)"
    return claimable if sql.queue.per is None else f"{claimable} AND ({_is_free(sql)})"


def _head(sql: QueueSql, of: str, wanted: str) -> str:
    """Return a sub-query for the head of a key. It compares by `>=`, not `=`: with equality, the remaining order is one
    that other indexes have too, and the planner may walk one of those from end to end."""
    per = _per(sql)
    return (
        f"(SELECT {wanted} FROM {sql.table} WHERE {sql.is_in(sql.holding)} AND {per} >= {of} "
        f"ORDER BY {_heads_first(sql)} LIMIT 1)"
    )


def _heads_first(sql: QueueSql) -> str:
    """Return the ORDER BY of the in-order index."""
    return ", ".join([_per(sql), sql.running_first, *sql.per_sequence])


# served by: the in-order index, one descent per key
def run_together(sql: QueueSql, given: str) -> str:
    """Select the places of the given keys (`g_per` at `g_place`) of which two or more rows run."""
    per, running = _per(sql), sql.is_in(sql.queue.vocabulary.of(StateKind.RUNNING))
    first = (
        f"SELECT {per} AS g_key, {running} AS g_runs FROM {sql.table} WHERE {sql.is_in(sql.holding)} "
        f"AND {per} >= g_per ORDER BY {_heads_first(sql)} LIMIT 2"
    )
    return (
        f"SELECT g_place FROM {given} "
        f"WHERE (SELECT count(*) FROM ({first}) AS firsts WHERE g_key = g_per AND g_runs) = 2"
    )


# served by: the in-order index
def without_key(sql: QueueSql, step: Step, limit: str, start: Start = AT_THE_BEGINNING) -> str:
    """Select ready rows without a key, which wait for nobody, for when the oldest rows are all held back. Selects
    nothing if `oldest_free` has looked at every ready row."""
    per, claimable = _per(sql), sql.is_in(step.claimable) + sql.part + sql.may_claim()
    return (
        f"SELECT {', '.join(sql.keys)} FROM {sql.table} WHERE {sql.is_in(sql.holding)} "
        f"AND {claimable} AND {per} IS NULL AND ({sql.available_at} IS NULL OR {sql.due}) "
        f"AND {_more(sql, step, limit, start)} "
        f"ORDER BY {_heads_first(sql)} LIMIT {limit}"
    )


def finders(sql: QueueSql) -> list[Finder]:
    """Return the queries that find free rows, in the order in which to try them."""
    per = sql.queue.per
    return [oldest_free, free_heads, *([without_key] if per is not None and per.nullable else [])]


def _per(sql: QueueSql) -> str:
    column = sql.queue.per
    if column is None:
        raise ValueError(f"queue {sql.queue.name} keeps no order per key")
    return sql.name(column)


LEAST = 50
"""The least number of rows to ask for."""
SHARE = 0.05
"""The share of time that walks over all keys may take, while they find little and there is other work."""


@dataclass(slots=True)
class Ask:
    """One query of a search. The caller claims up to `most` of the rows that `find` selects, and puts them into
    `found`."""

    find: Finder
    most: int
    behind: tuple[Any, ...] = ()
    """The key behind which a walk over all keys starts; empty for the first key."""
    found: Sequence[Any] = ()
    last: bool = False
    """Nothing more is wanted, though there may be more rows: there is no room for them."""

    @property
    def short(self) -> bool:
        return len(self.found) < self.most


class Search:
    """Decides which queries a claim makes in a queue with order per key, by what the last claims of the stage found.

    A worker asks for as many rows as it could run, but at most one row per idle key is free. With few keys, most of the
    rows that a large query reads would be held back. So a claim asks for twice what the last one found, and again for
    as long as it gets all that it asks for.

    A walk over all keys that found all it asked for is continued by the next claim: if each walk started at the first
    key, the last keys would wait for as long as the others have rows.
    """

    def __init__(self, last: Callable[[Sequence[Any]], Any], clock: Callable[[], float] = monotonic) -> None:
        """`last` returns the last key, in the order of the walk, among claimed rows."""
        self._last, self._clock = last, clock
        self._behind: tuple[Any, ...] = ()
        self._portion = LEAST
        self._ended = False
        self._walk_after = float("-inf")

    def asks(self, finders: Sequence[Finder], limit: int) -> Iterator[Ask]:
        """Yield the queries of one claim. The first finder is fast. The others look at the head of every key, or at all
        rows without a key, which may be slow: they are used every time only while nothing was found yet, so that no
        free row is missed."""
        quick, heads, *others = finders
        self._ended = False
        taken = yield from self._until_short(quick, limit)
        if self._over() or (taken and self._clock() < self._walk_after):
            return
        began, before = self._clock(), taken
        taken += yield from self._around(heads, limit - taken)
        for find in others:
            if not self._over():
                taken += yield from self._until_short(find, limit - taken)
        if self._over():
            return
        now = self._clock()
        few = taken - before < min(LEAST, limit - before)
        self._walk_after = now + (now - began) / SHARE if few else now

    def _over(self) -> bool:
        return self._ended

    def _around(self, find: Finder, limit: int) -> Generator[Ask, None, int]:
        """Yield queries from where the last walk ended to the last key, then from the first key on. Return how many
        rows were found."""
        taken = 0
        while taken < limit:
            ask = yield from self._ask(find, limit - taken, self._behind)
            taken += len(ask.found)
            if ask.last:
                self._behind = (self._last(ask.found),) if ask.found else ask.behind
                break
            if ask.short and not ask.behind:
                break
            self._behind = () if ask.short else (self._last(ask.found),)
        return taken

    def _until_short(self, find: Finder, limit: int) -> Generator[Ask, None, int]:
        """Yield queries until one finds fewer rows than it asked for. Return how many rows were found."""
        taken = 0
        while taken < limit:
            ask = yield from self._ask(find, limit - taken)
            taken += len(ask.found)
            if ask.short or ask.last:
                break
        return taken

    def _ask(self, find: Finder, wanted: int, behind: tuple[Any, ...] = ()) -> Generator[Ask, None, Ask]:
        ask = Ask(find, min(wanted, self._portion), behind)
        yield ask
        self._ended = ask.last
        if not ask.last:
            self._portion = max(LEAST, len(ask.found) * 2)
        return ask
