"""How free rows of a queue that keeps order per key are searched for, so that a search costs what it finds."""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
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
    found: Sequence[Any] = field(default=())


class Search:
    """What the last searches for rows of one stage came to.

    A worker asks for as many rows as it could run, but no more are free than there are keys, less those that are busy:
    with few keys, most of the old rows that are looked at would be looked at in vain. So a claim asks for twice what
    the last one found, and again for as long as it gets all that it asks for.

    A walk over all keys that found all it asked for is gone on with by the next one: if each began with the first key,
    the last ones would wait for as long as the others have rows.
    """

    def __init__(self, key: Callable[[Any], Any], clock: Callable[[], float] = monotonic) -> None:
        self._key, self._clock = key, clock
        self._behind: tuple[Any, ...] = ()
        self._portion = LEAST
        self._walk_after = float("-inf")

    def asks(self, finders: Sequence[Finder], limit: int) -> Iterator[Ask]:
        """The first way to find rows is quick. The others ask every key for its head, which many keys make slow: they
        are not gone every time, unless nothing was found yet. What is free must be found."""
        first, *walks = finders
        taken = yield from self._until_short(first, limit)
        if taken and self._clock() < self._walk_after:
            return
        began, before = self._clock(), taken
        for find in walks[:1]:
            taken += yield from self._around(find, limit - taken)
        for find in walks[1:]:
            taken += yield from self._until_short(find, limit - taken)
        now = self._clock()
        few = taken - before < min(LEAST, limit - before)
        self._walk_after = now + (now - began) / SHARE if few else now

    def _around(self, find: Finder, limit: int) -> Generator[Ask, None, int]:
        """From where the last walk ended to the last key, then from the first one on. Answers how many were found."""
        taken = 0
        while taken < limit:
            ask = Ask(find, min(limit - taken, self._portion), self._behind)
            yield ask
            taken += len(ask.found)
            self._portion = max(LEAST, len(ask.found) * 2)
            if len(ask.found) == ask.most:
                self._behind = (self._key(ask.found[-1]),)
            elif ask.behind:
                self._behind = ()
            else:
                break
        return taken

    def _until_short(self, find: Finder, limit: int) -> Generator[Ask, None, int]:
        """Answers how many were found."""
        taken = 0
        while taken < limit:
            ask = Ask(find, min(limit - taken, self._portion))
            yield ask
            taken += len(ask.found)
            self._portion = max(LEAST, len(ask.found) * 2)
            if len(ask.found) < ask.most:
                break
        return taken
