"""Keeps one mistake from filling the log: one line of a kind per minute, then a count of the others."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

MINUTE = 60.0
MOST_CODES = 20
"""Codes of one event and queue that have a line of their own each minute. Further codes share one."""

Kind = tuple[Any, ...]


@dataclass(slots=True)
class _Window:
    until: float
    more: int = 0


@dataclass
class RepeatedLines:
    """Lets the first line of a kind through and counts the others until its minute is over. Thread-safe."""

    clock: Callable[[], float] = time.monotonic
    _windows: dict[Kind, _Window] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def passes(self, kind: Kind) -> bool:
        """Return whether this is the first line of its kind in a minute. Call `ended` before."""
        with self._lock:
            window = self._windows.get(kind)
            if window is not None:
                window.more += 1
                return False
            self._windows[kind] = _Window(self.clock() + MINUTE)
            return True

    def share(self, kind: Kind, code: str) -> Kind:
        """Return the kind of a line with this code: its own, or the shared one for codes beyond MOST_CODES."""
        with self._lock:
            own = (*kind, code)
            others = sum(known[: len(kind)] == kind for known in self._windows)
            return own if own in self._windows or others < MOST_CODES else (*kind, "")

    def ended(self, *, all_of_them: bool = False) -> list[tuple[Kind, int]]:
        """Return the kinds whose minute is over and of which lines were left out, each with their number, and forget
        them."""
        now = self.clock()
        with self._lock:
            over = [kind for kind, window in self._windows.items() if all_of_them or now >= window.until]
            gone = [(kind, self._windows.pop(kind).more) for kind in over]
        return [(kind, more) for kind, more in gone if more]
