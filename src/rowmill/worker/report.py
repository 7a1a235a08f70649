"""Counts what a worker did."""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(slots=True)
class Report:
    """The counts of one run. `settled` is by move: done, advance, again, park, dead, abandon, release, hold."""

    claimed: int = 0
    settled: dict[str, int] = field(default_factory=dict)
    lost: int = 0
    """Results that were not written because the lease was gone."""
    refused: int = 0
    """Rows that failed because the database refused their values."""
    rescued: int = 0
    buried: int = 0
    peak_bytes: int = 0
    """The largest number of bytes that claimed rows had together."""
    byte_limited: int = 0
    """How often the byte budget made a claim smaller, or made it wait."""
    seconds: float = 0.0

    def count(self, move: str, rows: int = 1) -> None:
        self.settled[move] = self.settled.get(move, 0) + rows

    @property
    def done(self) -> int:
        return self.settled.get("done", 0)

    @property
    def dead(self) -> int:
        return self.settled.get("dead", 0) + self.buried

    @property
    def again(self) -> int:
        return self.settled.get("again", 0) + self.settled.get("park", 0)

    @property
    def held(self) -> int:
        """How often a row went back because a limit had no room."""
        return self.settled.get("hold", 0)

    @property
    def cancelled(self) -> int:
        return self.settled.get("abandon", 0)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {
            "done": self.done,
            "dead": self.dead,
            "again": self.again,
            "held": self.held,
            "cancelled": self.cancelled,
        }
