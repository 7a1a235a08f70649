"""The outcomes that a handler may return for a row."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rowmill.model.wait import Wait, seconds_to_wait


@dataclass(slots=True)
class Done:
    """The work is done. `values` are columns of the row, written with the new state in one statement.

    `finish=True` ends the row's journey here: stages that are still ahead are skipped.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    finish: bool = False


@dataclass(slots=True)
class RetryLater:
    """Try again after `after` seconds (the queue's backoff if None). `count_attempt=False` gives the attempt back.

    `after` may also be a timedelta, a datetime with a time zone, or the text of a Retry-After header. Anything else is
    refused here, with a TypeError or a ValueError.
    """

    after: Wait | None = None
    code: str = "again"
    message: str = ""
    count_attempt: bool = True
    values: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.after = seconds_to_wait(self.after, "after")


@dataclass(slots=True)
class Dead:
    """Give up on this row. It is kept, and never retried by itself."""

    code: str = "dead"
    message: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Cancel:
    """The work is no longer wanted."""

    message: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)


Outcome = Done | RetryLater | Dead | Cancel
Answer = Outcome | Mapping[str, Any] | None
"""What a handler may return: an outcome, column values (short for `Done`), or None (`Done` without any)."""
