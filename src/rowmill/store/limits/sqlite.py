"""Grants permits on SQLite, by the rules of `functions`: one transaction under the lock of the file."""

import asyncio
import json
import math
import sqlite3
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rowmill.model.limits import PASSING, RefusalReason
from rowmill.store.limits.asks import (
    FAR,
    KEEP_DONE,
    USUAL_HOLD,
    Change,
    FinishCalls,
    PermitRules,
    PermitsTaken,
    TakePermits,
)
from rowmill.store.limits.meter import Meter
from rowmill.store.port import Disconnected
from rowmill.store.sqlite.writer import Writer

COLUMNS = (
    "seen", "width", "head", "counts", "turn", "later", "later_from", "held", "off", "parked_until",
    "failures", "pause", "open_until", "probe_until",
)  # fmt: skip


@dataclass(slots=True)
class LimitRow:
    """The row of a limit and a key."""

    seen: float
    width: float
    head: int
    counts: str
    turn: float
    later: float
    later_from: float
    held: float
    off: int
    parked_until: float
    failures: int
    pause: float
    open_until: float
    probe_until: float


def read(connection: sqlite3.Connection, name: str, key: str) -> LimitRow:
    found = look(connection, name, key)
    if found is None:
        connection.execute("INSERT INTO rowmill_limiter (name, key) VALUES (?, ?)", (name, key))
        found = look(connection, name, key)
    assert found is not None
    return found


def look(connection: sqlite3.Connection, name: str, key: str) -> LimitRow | None:
    columns = ", ".join(COLUMNS)
    found = connection.execute(
        f"SELECT {columns} FROM rowmill_limiter WHERE name = ? AND key = ?", (name, key)
    ).fetchone()
    return None if found is None else LimitRow(*found)


def write(connection: sqlite3.Connection, name: str, key: str, row: LimitRow) -> None:
    sets = ", ".join(f"{column} = ?" for column in COLUMNS)
    values = [getattr(row, column) for column in COLUMNS]
    connection.execute(f"UPDATE rowmill_limiter SET {sets} WHERE name = ? AND key = ?", (*values, name, key))


NOW = "SELECT (julianday('now') - 2440587.5) * 86400.0"


class SqliteLimiter:
    """Grants permits through the store's writer."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._ends: list[tuple[FinishCalls, asyncio.Future[Change | None]]] = []

    async def take(self, asks: Sequence[TakePermits]) -> list[PermitsTaken]:
        return await self._writer.write(lambda connection: [take(connection, ask) for ask in asks])

    async def finish(self, ask: FinishCalls) -> Change | None:
        """End calls. Those that end at the same time, of whatever limits and keys, share one transaction."""
        told: asyncio.Future[Change | None] = asyncio.get_running_loop().create_future()
        self._ends.append((ask, told))
        if len(self._ends) == 1:
            await self._finish(self._ends)
        return await told

    async def _finish(self, ends: "Sequence[tuple[FinishCalls, asyncio.Future[Change | None]]]") -> None:
        try:
            try:
                await asyncio.sleep(0)  # who else ends in this turn of the loop has its say first
            finally:
                self._ends = []  # also if we are cancelled: the next one must not wait for us
            changes = await self._writer.write(lambda connection: [finish(connection, ask) for ask, _ in ends])
        except BaseException as error:
            for _, told in ends:
                if not told.done():
                    told.set_exception(
                        Disconnected("it was given up") if isinstance(error, asyncio.CancelledError) else error
                    )
            if not isinstance(error, Exception):
                raise
        else:
            for (_, told), change in zip(ends, changes, strict=True):
                if not told.done():
                    told.set_result(change)

    async def renew(self, tickets: Sequence[int], seconds: float) -> set[int]:
        def work(connection: sqlite3.Connection) -> set[int]:
            statement = f"UPDATE rowmill_ticket SET until = ({NOW}) + ? WHERE id = ? AND NOT done"
            return {number for number in tickets if connection.execute(statement, (seconds, number)).rowcount == 1}

        return await self._writer.write(work)


def clock(connection: sqlite3.Connection, at: float | None) -> float:
    return float(connection.execute(NOW).fetchone()[0]) if at is None else at


def take(connection: sqlite3.Connection, ask: TakePermits) -> PermitsTaken:
    rules, name, key = ask.rules, ask.rules.name, ask.key
    row = read(connection, name, key)
    now = clock(connection, ask.at)
    found = PermitsTaken(0, 0, now, now, step(rules, row), 0.0, None, 0, 0.0, row.failures, False, None)
    asked = room = ask.calls
    since = now

    def at_most(calls: int, reason: RefusalReason, until: float) -> None:
        nonlocal room, since
        if calls < room:
            room, since, found.reason = calls, until, reason

    whole = look(connection, name, "") if key else None
    parked = max(row.parked_until, whole.parked_until if whole else 0.0)
    if row.off or (whole and whole.off):
        at_most(0, RefusalReason.OFF, next_look(now))
    elif parked > now:
        at_most(0, RefusalReason.PARKED, parked)
    elif rules.breaker and row.pause > 0:
        until = row.open_until if row.open_until > now else (now // row.pause + 1) * row.pause
        found.probe = max(row.open_until, row.probe_until) <= now
        at_most(1 if found.probe else 0, RefusalReason.OPEN, until)
    meter, counted = None, 0
    if rules.calls:
        meter = Meter(row.width, row.head, json.loads(row.counts)).turned(now, rules.reach, rules.width)
        counted = sum(meter.counted(now, rules.reach))
        if counted + rules.calls // 2 < rules.calls:
            row.turn = min(row.turn, now)
        at_most(max(rules.calls - counted, 0), RefusalReason.RATE, meter.frees_at(now, rules.reach))
    if rules.ticketed:
        expire(connection, ask, now)
    numbers: list[int] = []
    if rules.slots and room:
        numbers = free_slots(connection, ask)
        if len(numbers) < room:
            at_most(len(numbers), RefusalReason.SLOTS, now + (row.held or USUAL_HOLD) / rules.slots)
            found.step = max(row.held, 0.001) / rules.slots
    if rules.budget:
        span = next((span for span in ask.spans if span.start <= now < span.end), None)
        if span is None:
            found.astray = True
            return found
        found.span = span.name
        end = span.end if math.isfinite(span.end) else next_look(now)
        calls, reason = affordable(connection, ask, span.name)
        at_most(calls, reason, end if reason is RefusalReason.BUDGET else now + (row.held or USUAL_HOLD))
    found.granted = room
    found.probe = found.probe and room > 0
    if found.probe:
        row.probe_until = now + rules.lease
    if meter is not None:
        if ask.late and room and (counted + room) * 2 <= rules.calls:
            found.late = ask.late
            meter = meter.turned(now + ask.late, rules.reach + ask.late, rules.width)
        found.bucket = meter.head if room else 0
        meter.counts[0] += room
        row.width, row.head, row.counts = meter.width, meter.head, json.dumps(meter.counts)
    if rules.ticketed:
        for place in range(room):
            slot, amount = (numbers[place] if rules.slots else None), (ask.amounts[place] if rules.budget else 0)
            values = (ask.tickets[place], name, key, slot, found.span, amount, now + rules.lease)
            connection.execute(
                "INSERT INTO rowmill_ticket (id, name, key, slot, span, amount, until) VALUES (?, ?, ?, ?, ?, ?, ?)",
                values,
            )
    if room < asked:
        line_up(row, found, ask, since, asked - room)
    else:
        found.reason = None
    row.seen = now
    write(connection, name, key, row)
    return found


def step(rules: PermitRules, row: LimitRow) -> float:
    if rules.calls:
        return (rules.reach + rules.width) / rules.calls
    return max(row.held, 0.001) / rules.slots if rules.slots else 0.01


def next_look(now: float) -> float:
    return (now // FAR + 1) * FAR


def line_up(row: LimitRow, found: PermitsTaken, ask: TakePermits, since: float, refused: int) -> None:
    """Queue up the calls that got no permit: each moves a virtual time on, so that they come back one by one."""
    found.soon = max(since - found.now, 0.0)
    if found.soon <= ask.horizon:
        found.kept = min(refused, ask.hold)
    lined = refused - found.kept
    if found.reason in PASSING:
        found.line = max(row.turn, since)
        if lined:
            row.turn = found.line + found.step * lined
        return
    if row.later_from != since:
        row.later = row.later_from = since
    found.line = row.later
    row.later = found.line + found.step * lined


def expire(connection: sqlite3.Connection, ask: TakePermits, now: float) -> None:
    """Give back what crashed processes held, or count it as spent."""
    given = (ask.rules.name, ask.key, now)
    connection.execute("DELETE FROM rowmill_ticket WHERE name = ? AND key = ? AND done = 1 AND until <= ?", given)
    gone = connection.execute(
        "DELETE FROM rowmill_ticket WHERE name = ? AND key = ? AND done = 0 AND until <= ? RETURNING span, amount",
        given,
    ).fetchall()
    if ask.rules.spent_by_crash:
        spend(connection, ask.rules.name, ask.key, gone, now)


def spend(connection: sqlite3.Connection, name: str, key: str, amounts: Sequence[tuple[Any, int]], now: float) -> None:
    sums: Counter[str] = Counter()
    for span, amount in amounts:
        if span is not None:
            sums[span] += amount
    for span, amount in sums.items():
        connection.execute(
            "INSERT INTO rowmill_spending (name, key, span, used, noted_at) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (name, key, span) DO UPDATE SET used = used + excluded.used, noted_at = excluded.noted_at",
            (name, key, span, amount, now),
        )


def free_slots(connection: sqlite3.Connection, ask: TakePermits) -> list[int]:
    taken = connection.execute(
        "SELECT slot FROM rowmill_ticket WHERE name = ? AND key = ? AND slot IS NOT NULL", (ask.rules.name, ask.key)
    )
    held = {slot for (slot,) in taken}
    return [number for number in range(1, ask.rules.slots + 1) if number not in held]


def affordable(connection: sqlite3.Connection, ask: TakePermits, span: str) -> tuple[int, RefusalReason]:
    """Return how many of the calls the budget has room for, in their order, and what keeps the next one out: a call
    under way may cost less than is reserved for it."""
    given = (ask.rules.name, ask.key, span)
    [(used,)] = connection.execute(
        "SELECT coalesce(sum(used), 0) FROM rowmill_spending WHERE name = ? AND key = ? AND span = ?", given
    )
    [(reserved,)] = connection.execute(
        "SELECT coalesce(sum(amount), 0) FROM rowmill_ticket WHERE name = ? AND key = ? AND done = 0 AND span = ?",
        given,
    )
    purse = ask.rules.budget - used - reserved
    for place, amount in enumerate(ask.amounts):
        purse -= amount
        if purse < 0:
            return place, RefusalReason.RESERVED if used + amount <= ask.rules.budget else RefusalReason.BUDGET
    return len(ask.amounts), RefusalReason.BUDGET


def finish(connection: sqlite3.Connection, ask: FinishCalls) -> Change | None:
    rules, name, key = ask.rules, ask.rules.name, ask.key
    row = read(connection, name, key)
    now = clock(connection, ask.at)
    for place, number in enumerate(ask.tickets):
        end_ticket(connection, ask, place, number, now)
    if ask.unused and row.width == rules.width:
        meter = Meter(row.width, row.head, json.loads(row.counts))
        meter.take_back(ask.bucket, ask.unused)
        row.counts = json.dumps(meter.counts)
    if ask.held > 0:
        row.held = 0.8 * row.held + 0.2 * ask.held if row.held else ask.held
    change = judge_provider(row, ask, now)
    write(connection, name, key, row)
    return change


def end_ticket(connection: sqlite3.Connection, ask: FinishCalls, place: int, number: int, now: float) -> None:
    """End the ticket of a call. A missing ticket has expired: what it had reserved is back already, or spent."""
    found = connection.execute("SELECT done FROM rowmill_ticket WHERE id = ?", (number,)).fetchone()
    if found is not None and found[0]:
        return
    cost = ask.costs[place]
    if found is None and ask.rules.spent_by_crash:
        cost -= ask.estimates[place]
    connection.execute(
        "UPDATE rowmill_ticket SET done = 1, slot = NULL, amount = 0, until = ? WHERE id = ?", (now + KEEP_DONE, number)
    )
    spend(connection, ask.rules.name, ask.key, [(ask.spans[place], cost)], now)


def judge_provider(row: LimitRow, ask: FinishCalls, now: float) -> Change | None:
    """Note how the provider is; return what changed."""
    change: Change | None = None
    breaker = ask.rules.breaker
    if ask.outcome in ("ok", "limited", "refused"):
        if row.pause > 0 and ask.probe:
            row.pause = row.open_until = 0.0
            change = "closed"
        if row.pause == 0:
            row.failures = 0
    elif ask.outcome == "down" and breaker is not None:
        row.failures += 1
        if row.pause > 0 and ask.probe:
            row.pause = min(row.pause * 2, breaker.longest)
            row.open_until, change = now + row.pause, "opened"
        elif row.pause == 0 and row.failures >= breaker.failures:
            row.pause = breaker.pause
            row.open_until, change = now + row.pause, "opened"
    elif ask.outcome == "unknown" and ask.probe and row.pause > 0:
        row.open_until = now + row.pause
    if ask.probe:
        row.probe_until = 0.0
    if ask.outcome == "limited" and now + ask.seconds > row.parked_until:
        change = change if row.parked_until > now else "parked"
        row.parked_until = now + ask.seconds
    elif ask.outcome == "refused" and not row.off:
        row.off, change = 1, "off"
    return change
