"""The state of limits, and what operators change about them. Every function takes a connection in a transaction."""

import json
from collections.abc import Collection
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from rowmill.model.limits import MICRO, Budget, exact
from rowmill.store.expressions import insert_of
from rowmill.store.limits.asks import LimitSummary, LimitView
from rowmill.store.own.schema import own_tables

KNOWN_SECONDS = 35 * 86400.0
"""Longer than a month, the longest span of a budget."""
AT_ONCE = 500
"""Keys in one statement."""
EVERY = ""
"""The key under which the state of a whole limit is stored."""


def seconds(dialect: str, shift: float = 0.0) -> "sa.ColumnElement[Any]":
    """Return the database's time, in seconds since 1970."""
    if dialect == "postgresql":
        return sa.literal_column(f"(extract(epoch FROM clock_timestamp())::float8 + {float(shift)!r})")
    return sa.literal_column(f"((julianday('now') - 2440587.5) * 86400.0 + {float(shift)!r})")


# served by: the primary keys, and the indexes on the tickets of a limit and key
def view(connection: Connection, name: str, key: str) -> LimitView:
    """Return the state of one key of a limit, whether or not it was ever used."""
    row = own_tables(connection.dialect.name).limits.limiter.c
    views = {one.key: one for one in _views(connection, sa.and_(row.name == name, row.key.in_([key, EVERY])), None)}
    found = views.get(key) or LimitView(name, key, _now(connection))
    whole = views.get(EVERY)
    if whole is not None:
        found.off = found.off or whole.off
        found.parked_until = max(found.parked_until, whole.parked_until)
    return found


def views(connection: Connection, key: str | None = None, most: int | None = None) -> list[LimitView]:
    """Return the state of every limit by key: those in trouble first, then the most recently used. At most `most`,
    since there may be many keys."""
    row = own_tables(connection.dialect.name).limits.limiter.c
    return _views(connection, sa.true() if key is None else row.key == key, most)


# served by: nothing: every key is looked at
def summaries(connection: Connection) -> list[LimitSummary]:
    """Return the state of each limit over all of its keys."""
    row, now = own_tables(connection.dialect.name).limits.limiter.c, seconds(connection.dialect.name)

    def many(condition: "sa.ColumnElement[bool]") -> "sa.ColumnElement[int]":
        return sa.func.sum(sa.case((condition, 1), else_=0))

    counted = sa.select(
        row.name, sa.func.count(), many(row.off), many(row.parked_until > now), many(row.pause > 0)
    )  # fmt: skip
    found = connection.execute(counted.group_by(row.name).order_by(row.name))
    return [LimitSummary(name, keys, int(off), int(parked), int(down)) for name, keys, off, parked, down in found]


# served by: the primary key
def spent(connection: Connection, name: str, budget: Budget, run: str) -> int:
    """Return how many keys of a limit have too little budget left for a call that costs 1."""
    spending, span = own_tables(connection.dialect.name).limits.spending.c, budget.span(_now(connection), run)
    used_up = spending.used > exact(budget.limit) - MICRO
    counted = sa.select(sa.func.count()).where(spending.name == name, spending.span == span.name, used_up)
    return int(connection.execute(counted).scalar_one())


def _now(connection: Connection) -> float:
    now: float = connection.execute(sa.select(seconds(connection.dialect.name))).scalar_one()
    return now


def _views(connection: Connection, chosen: "sa.ColumnElement[bool]", most: int | None) -> list[LimitView]:
    own, now = own_tables(connection.dialect.name).limits, _now(connection)
    row = own.limiter.c
    trouble = sa.case((sa.or_(row.off, row.parked_until > now, row.pause > 0), 0), else_=1)
    rows = sa.select(own.limiter).where(chosen).order_by(trouble, row.seen.desc(), row.name, row.key).limit(most)
    found = {
        (one.name, one.key): LimitView(
            one.name, one.key, now,
            turn=one.turn, width=one.width, head=one.head,
            counts=json.loads(one.counts) if isinstance(one.counts, str) else list(one.counts),
            parked_until=one.parked_until, off=bool(one.off), failures=one.failures,
            open_until=one.open_until if one.pause else 0.0,
        )
        for one in connection.execute(rows)
    }  # fmt: skip
    ticket, spending = own.ticket.c, own.spending.c
    good = sa.literal_column("NOT done" if connection.dialect.name == "postgresql" else "done = 0", sa.Boolean)
    held = sa.select(ticket.name, ticket.key, ticket.slot, ticket.span, ticket.amount).where(ticket.until > now, good)
    for one in _of(connection, held, ticket, found):
        here = found[one.name, one.key]
        here.slots += one.slot is not None
        if one.span is not None:
            here.reserved[one.span] = here.reserved.get(one.span, 0) + one.amount
    used = sa.select(spending.name, spending.key, spending.span, spending.used)
    for one in _of(connection, used, spending, found):
        found[one.name, one.key].spent[one.span] = one.used
    return list(found.values())


def _of(connection: Connection, wanted: "sa.Select[Any]", columns: Any, found: Collection[tuple[str, str]]) -> Any:
    """Yield the rows of these limits and keys, some at a time."""
    pairs = list(found)
    for start in range(0, len(pairs), AT_ONCE):
        some = sa.tuple_(columns.name, columns.key).in_(pairs[start : start + AT_ONCE])
        yield from connection.execute(wanted.where(some))


def _put(connection: Connection, name: str, key: str, **values: Any) -> None:
    limiter = own_tables(connection.dialect.name).limits.limiter
    put = insert_of(connection.dialect.name)(limiter).values(name=name, key=key, **values)
    connection.execute(put.on_conflict_do_update(index_elements=["name", "key"], set_=values))


def park(connection: Connection, name: str, key: str, wait: float) -> None:
    _put(connection, name, key, parked_until=seconds(connection.dialect.name, wait))


def switch_off(connection: Connection, name: str, key: str) -> None:
    _put(connection, name, key, off=True)


def switch_on(connection: Connection, name: str, key: str) -> int:
    """Switch a limit on: neither off nor parked, and the breaker closed. Return for how many keys that changed
    something."""
    limiter = own_tables(connection.dialect.name).limits.limiter
    row = limiter.c
    was = sa.or_(row.off, row.parked_until > seconds(connection.dialect.name), row.pause > 0)
    change = sa.update(limiter).where(row.name == name, was)
    if key != EVERY:
        change = change.where(row.key == key)
    values = {"off": False, "parked_until": 0, "pause": 0, "open_until": 0, "probe_until": 0, "failures": 0}
    changed: int = connection.execute(change.values(**values, later=0, later_from=0)).rowcount
    return changed
