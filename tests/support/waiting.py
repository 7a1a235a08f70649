"""Wait in sync code for a condition that no event announces."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
SECONDS = 60.0


def until(condition: Callable[[], T | None], seconds: float = SECONDS) -> T:
    """Poll a condition until it returns a true value. Return that value."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.02)
    return found
