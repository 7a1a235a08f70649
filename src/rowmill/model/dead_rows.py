"""Dead rows, and the listener of a queue that wants to hear of them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import Column

from rowmill.model.errors import RowmillError, safe_text

if TYPE_CHECKING:
    from rowmill.model.queue import QueueSpec
    from rowmill.model.retry import Retry


ATTEMPTS_USED_UP = "attempts_used_up"
"""The code of a row that was put back without its attempts at zero, and so died at its next claim."""
USED_UP = ("it was ready for one more attempt, with all of its ", " used up")
"""The error of such a row, before and after its limit of attempts."""


@dataclass(frozen=True, slots=True)
class DeadRow:
    """A row that died. It is kept, and never tried again by itself."""

    key: Any
    attempt: int
    code: str
    message: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """The columns that the listener asked for, by name; empty if the row could not be read."""

    @property
    def error(self) -> str:
        """The text in the row's error column."""
        return safe_text(f"{self.code}: {self.message}") if self.message else self.code


@dataclass(frozen=True, slots=True)
class DeadRowListener:
    """Called once for each row that died, by the process that wrote it, after the commit."""

    columns: tuple["Column[Any]", ...]
    notify: Callable[[DeadRow], None]


def facts_of(queue: "QueueSpec[Any]", read: Callable[[], Any]) -> dict[str, Any]:
    """Return the columns that the queue's listener asks for. Empty if the row can't be read, which may be why it
    died."""
    if queue.dead_row_listener is None:
        return {}
    try:
        row = read()
    except RowmillError:
        return {}
    mapper = queue.mapper
    return {
        column.name: getattr(row, column.key if mapper is None else mapper.get_property_by_column(column).key)
        for column in queue.dead_row_listener.columns
    }


def used_up(queue: "QueueSpec[Any]", retry: "Retry", key: Any, attempts: int, read: Callable[[], Any]) -> DeadRow:
    """Return the DeadRow for a row that a claim found with all of its attempts used up."""
    return DeadRow(key, attempts, ATTEMPTS_USED_UP, str(retry.attempts).join(USED_UP), facts_of(queue, read))


def notify_dead(queue: "QueueSpec[Any]", deaths: Iterable[DeadRow]) -> None:
    if queue.dead_row_listener is not None:
        for death in deaths:
            queue.dead_row_listener.notify(death)
