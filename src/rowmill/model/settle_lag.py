"""Finished rows that a worker could not write yet, as it reports them with its heartbeat."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class SettleLag:
    """What is late for one queue in one worker."""

    MOST_KEYS: ClassVar[int] = 50

    rows: int = 0
    """Finished rows that were not written for longer than a few seconds."""
    seconds: float = 0.0
    """How long the oldest of them has waited."""
    reason: str = ""
    """locked: another transaction has the rows, or the table, locked. timeout: statements are cancelled because they
    take too long. pending: the database has not answered yet."""
    keys: list[str] = field(default_factory=list)
    """The keys of the first few."""
    cancelled: int = 0
    """How many statements of this worker the database cancelled."""
    batch: int = 0
    """How many rows one statement takes now."""
    seconds_per_row: float = 0.0


MEANINGS = {
    "locked": "another transaction has the rows locked, or the table",
    "timeout": "the database cancels the statements, because they take too long (statement_timeout)",
    "pending": "the database has not answered yet",
}


def as_text(lags: Mapping[str, SettleLag]) -> str | None:
    """Return the lags as JSON for the worker's row; None if nothing is late."""
    return json.dumps({name: asdict(lag) for name, lag in sorted(lags.items())}) if lags else None


def from_text(text: str | None) -> dict[str, SettleLag]:
    """Read the lags that a worker reported. Fields of another version of Rowmill are ignored."""
    try:
        found: Any = json.loads(text or "{}")
        known = set(SettleLag.__dataclass_fields__)
        return {
            str(name): SettleLag(**{key: value for key, value in lag.items() if key in known})
            for name, lag in found.items()
        }
    except (ValueError, TypeError, AttributeError):
        return {}
