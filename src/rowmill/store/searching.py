"""How free rows of a queue that keeps order per key are searched for, so that a search costs what it finds."""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

from rowmill.store.order_sql import Finder

LEAST = 50
"""Rows that are asked for at the least."""
SHARE = 0.05
"""Of the time that walks over all keys may take, while they find little and there is other work."""


@dataclass(slots=True)
class Ask:
    """Claim up to `most` rows out of those that `find` finds, and put them here."""

    find: Finder
    most: int
    behind: tuple[Any, ...] = ()
    """The key behind which a walk over all keys begins, if not from the start."""
    found: Sequence[Any] = ()
    last: bool = False
    """Nothing more is wanted, though there may be more rows: there is no room for them."""

    @property
    def short(self) -> bool:
        return len(self.found) < self.most


class Search:
    """What the last searches for rows of one stage came to.

    A worker asks for as many rows as it could run, but no more are free than there are keys, less those that are busy:
    with few keys, most of the old rows that are looked at would be looked at in vain. So a claim asks for twice what
    the last one found, and again for as long as it gets all that it asks for.

    A walk over all keys that found all it asked for is gone on with by the next one: if each began with the first key,
    the last ones would wait for as long as the others have rows.
    """

    def __init__(self, last: Callable[[Sequence[Any]], Any], clock: Callable[[], float] = monotonic) -> None:
        """`last` tells the last key, in the order of the walk, among rows that were claimed."""
        self._last, self._clock = last, clock
        self._behind: tuple[Any, ...] = ()
        self._portion = LEAST
        self._ended = False
        self._walk_after = float("-inf")

    def asks(self, finders: Sequence[Finder], limit: int) -> Iterator[Ask]:
        """The first way to find rows is quick. The others ask every key for its head, or walk over all rows without a
        key, which many of them make slow: they are not gone every time, unless nothing was found yet. What is free must
        be found."""
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
        """From where the last walk ended to the last key, then from the first one on. Answers how many were found."""
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
        """Answers how many were found."""
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
