"""What searches of one process remember for a short time."""

import time
from collections import OrderedDict
from collections.abc import Hashable
from typing import TYPE_CHECKING, Generic, TypeVar
from weakref import WeakKeyDictionary

from rowmill_systems.knowledge.search.words import KbSample
from rowmill_systems.parts.vectors.port import Vector

if TYPE_CHECKING:
    from rowmill_systems.knowledge.knowledge import Knowledge

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
SECONDS = 60.0
"""Values may be so old. They weigh words, and say what is complete; what is found is always up to date."""
MOST = 2000


class RecentValues(Generic[K, V]):
    """A bounded cache whose values grow old."""

    def __init__(self, most: int = MOST, seconds: float = SECONDS) -> None:
        self._most, self._seconds = most, seconds
        self._values: OrderedDict[K, tuple[float, V]] = OrderedDict()

    def get(self, key: K) -> V | None:
        at, value = self._values.get(key, (float("-inf"), None))
        return value if time.monotonic() - at < self._seconds else None

    def put(self, key: K, value: V) -> None:
        self._values.pop(key, None)
        self._values[key] = time.monotonic(), value
        while len(self._values) > self._most:
            self._values.popitem(last=False)


class SearchCaches:
    """The caches of one system."""

    def __init__(self) -> None:
        self.queries: RecentValues[tuple[str, str], Vector] = RecentValues(256)
        """By model and text."""
        self.samples: RecentValues[Hashable, KbSample] = RecentValues()
        self.having: RecentValues[Hashable, int] = RecentValues(20_000)
        self.settled: RecentValues[Hashable, bool] = RecentValues()
        """Knowledge bases, each with a model, in which no document waits for vectors of that model."""


_caches: "WeakKeyDictionary[Knowledge, SearchCaches]" = WeakKeyDictionary()


def caches_of(knowledge: "Knowledge") -> SearchCaches:
    """Return the caches of a system. They go with it."""
    return _caches.setdefault(knowledge, SearchCaches())
