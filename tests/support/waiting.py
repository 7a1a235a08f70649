"""To wait, outside of a loop, for what nobody tells us of."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
SECONDS = 60.0


def until(condition: Callable[[], T | None], seconds: float = SECONDS) -> T:
    """What the condition answers, once that is something."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.02)
    return found
