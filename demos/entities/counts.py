"""What the services observed, to tell whether the client is polite."""

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Count:
    """Counts of one service."""

    arrivals: list[float] = field(default_factory=list)
    """Arrival times on the monotonic clock."""
    questions: Counter[str] = field(default_factory=Counter)
    """How often each question was asked."""
    answered: Counter[str] = field(default_factory=Counter)
    """How often each question was answered completely."""
    items: Counter[str] = field(default_factory=Counter)
    """How often each id was answered, in calls for several ids."""
    faults: Counter[str] = field(default_factory=Counter)
    at_once: int = 0
    most_at_once: int = 0
    wait_until: float = 0.0
    """Until when it asked to wait, with Retry-After."""
    out_of_turn: int = 0
    """Requests before that time."""

    def arrived(self, question: str) -> None:
        now = time.monotonic()
        self.arrivals.append(now)
        self.questions[question] += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.out_of_turn += now < self.wait_until

    def most_within(self, seconds: float) -> int:
        """Return the most requests in any period of this length."""
        times, start, most = sorted(self.arrivals), 0, 0
        for end, at in enumerate(times):
            while at - times[start] >= seconds:
                start += 1
            most = max(most, end - start + 1)
        return most

    def to_json(self) -> dict[str, Any]:
        return {
            "requests": len(self.arrivals), "questions": len(self.questions), "answered": self.answered.total(),
            "answered_twice": sum(times > 1 for question, times in self.answered.items() if '"ids"' not in question),
            "items_twice": sum(times > 1 for times in self.items.values()),
            "faults": dict(self.faults), "most_in_a_second": self.most_within(1.0), "most_at_once": self.most_at_once,
            "out_of_turn": self.out_of_turn,
        }  # fmt: skip
