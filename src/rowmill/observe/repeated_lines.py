"""Keeps one mistake from filling the log: one line of a kind a minute, and how many more there were."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

MINUTE = 60.0
MOST_CODES = 20
"""Codes of one event and queue that have a line of their own each minute; codes beyond share one."""

Kind = tuple[Any, ...]


@dataclass(slots=True)
class _Window:
    until: float
    more: int = 0


@dataclass
class RepeatedLines:
    """Lets the first line of a kind through, and counts the others until a minute is over. May be used by several
    threads."""

    clock: Callable[[], float] = time.monotonic
    _windows: dict[Kind, _Window] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def passes(self, kind: Kind) -> bool:
        """Is this the first line of its kind in a minute? Ask `ended` before."""
        with self._lock:
            window = self._windows.get(kind)
            if window is not None:
                window.more += 1
                return False
            self._windows[kind] = _Window(self.clock() + MINUTE)
            return True

    def share(self, kind: Kind, code: str) -> Kind:
        """The kind of a line with this code: its own, or the one that is left for codes beyond MOST_CODES."""
        with self._lock:
            own = (*kind, code)
            others = sum(known[: len(kind)] == kind for known in self._windows)
            return own if own in self._windows or others < MOST_CODES else (*kind, "")

    def ended(self, *, all_of_them: bool = False) -> list[tuple[Kind, int]]:
        """Return the suppressed kinds of lines whose minute is over, each with its count, and forget them."""
        now = self.clock()
        with self._lock:
            over = [kind for kind, window in self._windows.items() if all_of_them or now >= window.until]
            gone = [(kind, self._windows.pop(kind).more) for kind in over]
        return [(kind, more) for kind, more in gone if more]
