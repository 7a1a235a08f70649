"""Deletes what limits leave behind once nothing depends on it, a batch at a time.

Whoever asks for room in a key tidies up after it. This is for keys that nobody asks for again. Every function takes a
connection in a transaction.
"""

import sqlalchemy as sa
from sqlalchemy import Connection

from rowmill.model.limits import LimitDeclaration
from rowmill.store.expressions import insert_of
from rowmill.store.limits.views import KNOWN_SECONDS, seconds
from rowmill.store.own.schema import own_tables

WIDTHS = 1500
"""Buckets that a rate reaches back: a period has at most 128 buckets, and its margin is at most ten periods."""
IDLE_SECONDS = 3600.0
"""Least seconds for which a key is remembered after its last call."""
KEYS = 500
"""Keys in one statement."""
SPANS = {"hour": 2 * 3600.0, "day": 2 * 86400.0}
"""Seconds for which the spent amount of a span is remembered after its last change. Longest for a month or a run."""


def sweep(connection: Connection, most: int) -> int:
    """Delete a batch of what is over; return how many entries. A limit that was switched off stays off."""
    gone = _ended(connection, most) + _crashed(connection, most)
    return gone + _spent(connection, most) + _idle(connection, most) + _declared(connection, most)


# served by: nothing. Only tickets of the last minutes are there, but for those of keys that are not asked for again
def _ended(connection: Connection, most: int) -> int:
    """Delete tickets of calls that ended so long ago that nobody reports their end a second time."""
    ticket = own_tables(connection.dialect.name).limits.ticket
    old = sa.and_(_done(connection), ticket.c.until <= seconds(connection.dialect.name))
    return _delete(connection, ticket, old, most)


def _crashed(connection: Connection, most: int) -> int:
    """Delete expired tickets. What they had reserved comes back or is spent, as their limit declares.

    Under the locks of the limits' rows: who grants room reads what is spent before what is reserved.
    """
    dialect = connection.dialect.name
    own = own_tables(dialect).limits
    ticket, row = own.ticket.c, own.limiter.c
    over = sa.and_(sa.not_(_done(connection)), ticket.until <= seconds(dialect))
    keys = connection.execute(sa.select(ticket.name, ticket.key).where(over).distinct().limit(min(most, KEYS))).all()
    if not keys:
        return 0
    free = sa.select(row.name, row.key).where(sa.tuple_(row.name, row.key).in_(keys)).order_by(row.name, row.key)
    locked = [tuple(one) for one in connection.execute(free.with_for_update(skip_locked=True))]
    if not locked:
        return 0
    ours = sa.tuple_(ticket.name, ticket.key).in_(locked)
    some = sa.select(ticket.id).where(over, ours).limit(most)
    found = connection.execute(
        sa.delete(own.ticket)
        .where(ticket.id.in_(some), over)
        .returning(ticket.name, ticket.key, ticket.span, ticket.amount)
    ).all()
    spent_by_crash = _spent_by_crash(connection)
    sums: dict[tuple[str, str, str], int] = {}
    for name, key, span, amount in found:
        if span is not None and name in spent_by_crash:
            sums[name, key, span] = sums.get((name, key, span), 0) + amount
    for (name, key, span), amount in sums.items():
        put = insert_of(dialect)(own.spending).values(
            name=name, key=key, span=span, used=amount, noted_at=seconds(dialect)
        )
        changed = {"used": own.spending.c.used + amount, "noted_at": seconds(dialect)}
        connection.execute(put.on_conflict_do_update(index_elements=["name", "key", "span"], set_=changed))
    return len(found)


def _spent_by_crash(connection: Connection) -> set[str]:
    """Return the limits whose declaration counts as spent what a crashed process had reserved."""
    row = own_tables(connection.dialect.name).limit_declaration.c
    rows = connection.execute(sa.select(row.name, row.declared))
    declared = ((name, LimitDeclaration.from_json(text)) for name, text in rows)
    return {name for name, one in declared if one and one.budget is not None and one.budget.crashed == "spent"}


# served by: nothing: one row per key and span of the last days
def _spent(connection: Connection, most: int) -> int:
    """Delete what was spent in hours and days that are over, and in months and runs of long ago."""
    dialect = connection.dialect.name
    spending = own_tables(dialect).limits.spending
    old = sa.or_(
        spending.c.noted_at < seconds(dialect, -KNOWN_SECONDS),
        *(
            sa.and_(spending.c.span.like(f"{kind} %"), spending.c.noted_at < seconds(dialect, -age))
            for kind, age in SPANS.items()
        ),
    )
    return _delete(connection, spending, old, most)


# served by: nothing: one row per key that was used lately
def _idle(connection: Connection, most: int) -> int:
    """Delete unused keys of which nothing has to be remembered: no call within a window, no budget, nobody queued,
    nothing about the provider."""
    dialect = connection.dialect.name
    own = own_tables(dialect).limits
    row, now = own.limiter.c, seconds(dialect)
    well = sa.and_(sa.not_(row.off), row.parked_until < now, row.pause == 0, row.failures == 0)
    over = sa.and_(row.seen + WIDTHS * row.width < now, row.turn < now, row.later < now)
    unused = [
        ~sa.exists().where(table.c.name == row.name, table.c.key == row.key) for table in (own.ticket, own.spending)
    ]
    known = seconds(dialect, -KNOWN_SECONDS)
    forgotten = sa.and_(row.seen < known, row.parked_until < known, sa.not_(row.off))
    idle = sa.and_(row.seen < seconds(dialect, -IDLE_SECONDS), well, over, *unused)
    return _delete(connection, own.limiter, sa.or_(idle, forgotten), most)


# served by: nothing: a few rows
def _declared(connection: Connection, most: int) -> int:
    """Delete declarations of processes that are long gone. Until then, they say what becomes of expired tickets."""
    declared = own_tables(connection.dialect.name).limit_declaration
    return _delete(connection, declared, declared.c.seen < seconds(connection.dialect.name, -KNOWN_SECONDS), most)


def _done(connection: Connection) -> "sa.ColumnElement[bool]":
    """Return the condition for ended tickets, spelled as in the index."""
    return sa.literal_column("done" if connection.dialect.name == "postgresql" else "done = 1", sa.Boolean)


def _delete(connection: Connection, table: sa.Table, old: "sa.ColumnElement[bool]", most: int) -> int:
    key = tuple(table.primary_key.columns)
    # Passing over what somebody has locked: two who lock rows in different orders would wait for each other.
    some = sa.select(*key).where(old).limit(most).with_for_update(skip_locked=True)
    # The condition stands twice: what is used in between stays.
    gone: int = connection.execute(sa.delete(table).where(sa.tuple_(*key).in_(some), old)).rowcount
    return gone
