"""How limits stand, and an operator's hand on them. Every function takes a connection in a transaction."""

import json
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from rowmill.store.dialect_insert import insert_of
from rowmill.store.limiting.asks import LimitView
from rowmill.store.schema import own_tables

KNOWN_SECONDS = 35 * 86400.0
"""Longer than a month, the longest span of a budget."""
EVERY = ""
"""The key under which what holds for a whole limit is kept."""


def seconds(dialect: str, shift: float = 0.0) -> "sa.ColumnElement[Any]":
    """The database's time, in seconds since 1970."""
    if dialect == "postgresql":
        return sa.literal_column(f"(extract(epoch FROM clock_timestamp())::float8 + {float(shift)!r})")
    return sa.literal_column(f"((julianday('now') - 2440587.5) * 86400.0 + {float(shift)!r})")


# served by: the primary keys, and the index on the slots of a limit and key
def view(connection: Connection, name: str, key: str) -> LimitView:
    """One key of a limit, whether or not anybody has used it."""
    views = {one.key: one for one in _views(connection, name, {key, EVERY})}
    now: float = connection.execute(sa.select(seconds(connection.dialect.name))).scalar_one()
    found = views.get(key) or LimitView(name, key, now)
    whole = views.get(EVERY)
    if whole is not None:
        found.off = found.off or whole.off
        found.parked_until = max(found.parked_until, whole.parked_until)
    return found


def views(connection: Connection, name: str | None = None) -> list[LimitView]:
    """Every key of every limit, or of one."""
    return list(_views(connection, name, None))


def _views(connection: Connection, name: str | None, keys: "set[str] | None") -> Iterable[LimitView]:
    own, dialect = own_tables(connection.dialect.name).limits, connection.dialect.name
    now: float = connection.execute(sa.select(seconds(dialect))).scalar_one()

    def of(table: sa.Table, *columns: "sa.ColumnElement[Any]") -> Any:
        wanted = sa.select(table.c.name, table.c.key, *columns).order_by(table.c.name, table.c.key)
        if name is not None:
            wanted = wanted.where(table.c.name == name)
        return wanted if keys is None else wanted.where(table.c.key.in_(sorted(keys)))

    row, found = own.limiter.c, {}
    for one in connection.execute(
        of(own.limiter, row.turn, row.width, row.head, row.counts, row.parked_until, row.off, row.failures,
           row.open_until, row.pause)
    ):  # fmt: skip
        found[one.name, one.key] = LimitView(
            one.name, one.key, now,
            turn=one.turn, width=one.width, head=one.head,
            counts=json.loads(one.counts) if isinstance(one.counts, str) else list(one.counts),
            parked_until=one.parked_until, off=bool(one.off), failures=one.failures,
            open_until=one.open_until if one.pause else 0.0,
        )  # fmt: skip
    ticket = own.ticket.c
    held = of(own.ticket, ticket.slot, ticket.span, ticket.amount).where(
        ticket.until > seconds(dialect), ticket.done.is_(sa.false())
    )
    for one in connection.execute(held):
        here = found.setdefault((one.name, one.key), LimitView(one.name, one.key, now))
        here.slots += one.slot is not None
        if one.span is not None:
            here.reserved[one.span] = here.reserved.get(one.span, 0) + one.amount
    for one in connection.execute(of(own.spending, own.spending.c.span, own.spending.c.used)):
        found.setdefault((one.name, one.key), LimitView(one.name, one.key, now)).spent[one.span] = one.used
    return found.values()


def _put(connection: Connection, name: str, key: str, **values: Any) -> None:
    limiter = own_tables(connection.dialect.name).limits.limiter
    put = insert_of(connection.dialect.name)(limiter).values(name=name, key=key, **values)
    connection.execute(put.on_conflict_do_update(index_elements=["name", "key"], set_=values))


def park(connection: Connection, name: str, key: str, wait: float) -> None:
    _put(connection, name, key, parked_until=seconds(connection.dialect.name, wait))


def switch_off(connection: Connection, name: str, key: str) -> None:
    _put(connection, name, key, off=True)


def switch_on(connection: Connection, name: str, key: str) -> int:
    """Neither off nor parked, and the breaker closed; answers for how many keys that is new."""
    limiter = own_tables(connection.dialect.name).limits.limiter
    row = limiter.c
    was = sa.or_(row.off, row.parked_until > seconds(connection.dialect.name), row.pause > 0)
    change = sa.update(limiter).where(row.name == name, was)
    if key != EVERY:
        change = change.where(row.key == key)
    values = {"off": False, "parked_until": 0, "pause": 0, "open_until": 0, "probe_until": 0, "failures": 0}
    changed: int = connection.execute(change.values(**values, later=0, later_from=0)).rowcount
    return changed


# served by: nothing: the tables are as small as the keys in use
def tidy(connection: Connection, most: int) -> int:
    """Forget keys that nobody has used for so long that no window or budget can reach back to it, a batch at a time;
    answers how many entries went. What was switched off stays off."""
    own, before = own_tables(connection.dialect.name).limits, seconds(connection.dialect.name, -KNOWN_SECONDS)
    row, gone = own.limiter.c, 0
    for table, old in (
        (own.limiter, sa.and_(row.seen < before, row.parked_until < before, sa.not_(row.off))),
        (own.ticket, own.ticket.c.until < before),
        (own.spending, own.spending.c.noted_at < before),
    ):
        key = tuple(table.primary_key.columns)
        # The condition stands twice: a key that is used in between stays.
        some = sa.tuple_(*key).in_(sa.select(*key).where(old).limit(most))
        gone += connection.execute(sa.delete(table).where(some, old)).rowcount
    return gone
