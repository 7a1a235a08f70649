"""Which expired leases are swept at once, and which of them their holders may still renew first.

A lease can run out while its worker lives: the database stalled for everybody, or somebody had the row locked and the
renewal went around it. To sweep it would throw finished work away. So a row is swept when it was seen expired and free
twice, with time for a renewal in between; at once only if its holder has signed off, or has been silent while others
were heard.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Connection

from rowmill.model.lease import worker_of
from rowmill.store import fleet

GRACE = 5.0
"""Seconds between the two looks, or the length of a shorter lease."""
SILENT_BEATS = 3
"""A living worker signs at least once in this number of heartbeats, unless the database is away."""


class SecondLook:
    """What one sweeper remembers of expired leases. Its clock decides only when to look again."""

    def __init__(self, heartbeat: float, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._silence = heartbeat * SILENT_BEATS
        self._answered_at = self._healthy_since = float("-inf")
        self._due: defaultdict[tuple[str, str], dict[tuple[int, str], float]] = defaultdict(dict)
        """By queue and stage: when a row that was seen expired may be swept, by its token and key."""

    def answered(self) -> None:
        """The database has just answered us. After a stall it takes a while until all who live are heard again."""
        now = self._clock()
        if now - self._answered_at > self._silence:
            self._healthy_since = now
        self._answered_at = now

    def sparing(self, queue: str, stage: str) -> set[int]:
        """Tokens of this stage that had their first look a moment ago."""
        now = self._clock()
        return {token for (token, _), due in self._due[queue, stage].items() if now < due}

    def waits_for(self, queue: str, stage: str) -> bool:
        """Did rows of this stage have their first look, and not the second?"""
        return bool(self._due[queue, stage])

    def wait(self) -> float | None:
        """Seconds until a second look is due; None if none is."""
        due = [at for rows in self._due.values() for at in rows.values()]
        return max(min(due) - self._clock(), 0.0) if due else None

    def ready(self, connection: Connection, rows: Sequence[Any], *, queue: str, stage: str, lease: float) -> list[Any]:
        """Those of the rows that may be swept now. They are all of this stage that are expired, free and not spared;
        `held` of each is its token."""
        now, before = self._clock(), self._due[queue, stage]
        # Those that are due and not among these were renewed, or are locked again.
        due = self._due[queue, stage] = {row: at for row, at in before.items() if now < at}
        holders = {worker_of(row.held) for row in rows if row.held}
        # This very sweep may have waited for the end of a stall.
        heard_all = now - self._healthy_since >= self._silence >= now - self._answered_at
        living = fleet.living(connection, holders, within=self._silence if heard_all else None)
        found = []
        for row in rows:
            about = (row.held, repr(tuple(row)))
            if not row.held or worker_of(row.held) not in living or before.get(about, math.inf) <= now:
                found.append(row)
            else:
                due.setdefault(about, now + min(lease, GRACE))
        return found
