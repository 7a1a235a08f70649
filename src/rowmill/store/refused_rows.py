"""Rows that the table does not let be claimed. Claims step over them, so that they hold up no other row.

A CHECK that was added NOT VALID, or a trigger that raises, can refuse a row, and one such row at the head fails the
whole claim. The failed claim is repeated in halves until the refused row is found. It is left out of claims for a while
and then tried by itself: when its cause is fixed, it is claimed again.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from sqlalchemy.exc import DBAPIError

from rowmill.model.queue import QueueSpec
from rowmill.model.states import Step
from rowmill.store.halving import Halving
from rowmill.store.keys import Key
from rowmill.store.own.history import note_refused
from rowmill.store.port import Disconnected, Store
from rowmill.store.rows import RowLoader

MOST = 10
"""The most refused rows of one stage that claims step over. With more, the table contradicts the queue's
declaration."""
REST = 60.0
"""Seconds after which a refused row is tried again."""
PASSING = ("08", "25", "40", "53", "55", "57", "58", "XX")
"""Classes of PostgreSQL errors that are not about the row and may pass."""
OF_THE_TABLE = ("0A", "26", "28", "3D", "3F", "42")
"""Classes of errors about names and rights, which are the same for every row."""

Pick = Callable[[int], Awaitable[list[Key]]]
"""Returns the raw keys of up to a number of rows that a claim would take now."""
TakeRows = Callable[[Sequence[Key]], Awaitable[list[Any]]]
"""Claims those of these rows that can still be claimed. Raises RowRefused."""


class RowRefused(Exception):
    """The table does not let one of these rows be claimed. Its text is the reason, never a value."""


class RefusedRows:
    """The rows of one stage that are left out of its claims, by their raw keys."""

    def __init__(self) -> None:
        self._rows: list[tuple[Key, float]] = []
        """The raw keys, each with the time at which it is tried again. A list, since a key need not be hashable."""
        self._news: list[tuple[Key, str]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def full(self) -> bool:
        return len(self._rows) > MOST

    @property
    def parts(self) -> list[Any]:
        """The parts of all keys, one after another, as the parameters of a claim."""
        return [part for key, _ in self._rows for part in key]

    def due(self, now: float) -> bool:
        """Return whether one of them is to be tried again."""
        return any(now >= at for _, at in self._rows)

    def hurry(self) -> None:
        """Try all of them again with the next claim."""
        self._rows = [(key, float("-inf")) for key, _ in self._rows]

    @property
    def has_news(self) -> bool:
        return bool(self._news)

    def take_news(self) -> list[tuple[Key, str]]:
        """Return the rows that were refused for the first time since the last call, each with the reason."""
        news, self._news = self._news, []
        return news

    async def try_again(self, limit: int, take: TakeRows, now: float) -> list[Any]:
        """Claim the rows that are due again and are no longer refused."""
        records: list[Any] = []
        for key in [key for key, at in self._rows if now >= at]:
            if len(records) >= limit:
                break
            try:
                records += await take([key])
                still = []  # taken, or gone, or somebody else's
            except RowRefused:
                still = [(key, now + REST)]
            self._rows = [row for row in self._rows if row[0] != key] + still
        return records

    async def step_over(self, limit: int, pick: Pick, take: TakeRows, now: float, records: list[Any]) -> None:
        """Claim up to `limit` rows into `records`, passing over refused ones, until these become too many."""
        while len(records) < limit and not self.full():
            before = len(records) + len(self)
            halving = Halving(await pick(limit - len(records)))
            for keys in halving:
                if self.full():
                    break
                try:
                    records += await take(keys)
                except RowRefused as refusal:
                    if not halving.split(keys):
                        self._rows.append((keys[0], now + REST))
                        self._news.append((keys[0], str(refusal)))
            if len(records) + len(self) == before:  # others were faster, or a trigger keeps rows back without a word
                break


async def report_refused(store: Store, queue: QueueSpec[Any], step: Step, refused: RefusedRows) -> None:
    """Report newly refused rows to the listener, and note them in the history for `why` and `doctor`."""
    key_of = RowLoader(store.sql(queue)).key_of
    news = [(queue.key_text(key_of(key)), reason) for key, reason in refused.take_news()]
    for key, reason in news:
        store.on_refused(queue.name, step.name, key, reason)
    with suppress(Disconnected, DBAPIError):
        await store.run(lambda connection: note_refused(connection, queue, step, store.worker, news))


def is_of_a_row(sqlstate: str | None) -> bool:
    """Return whether an error of PostgreSQL is about one row, and not about the server, the connection or all rows
    alike."""
    return not str(sqlstate or "XX").startswith(PASSING + OF_THE_TABLE)
