"""The event that a handler receives."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Column

from rowmill.model.lease import Lease, SettlingBlock
from rowmill.model.outcome import Outcome
from rowmill.model.queue import QueueSpec
from rowmill.outbox.table import OutboxColumns
from rowmill.store.clock import as_moment


@dataclass(frozen=True, slots=True)
class Event:
    """A claimed event."""

    id: Any
    type: str
    aggregate_id: Any
    payload: Any
    created_at: datetime | None
    attempt: int
    """Number of this attempt, starting at 1."""
    lease: Lease[Any]

    @property
    def last_attempt(self) -> bool:
        return self.lease.last_attempt

    def settling(self, outcome: Outcome | None = None) -> SettlingBlock:
        """Commit your own writes and the completion of the event in one fenced transaction. See `Lease.settling`."""
        return self.lease.settling(outcome)


class EventColumns:
    """Finds the columns of an event in an outbox table."""

    def __init__(self, queue: QueueSpec[Any], columns: OutboxColumns) -> None:
        self._queue = queue
        self.event_type = queue.names[columns.event_type]
        self.aggregate_id = queue.names[columns.aggregate_id]
        self.payload = queue.names[columns.payload]
        self.created_at: Column[Any] | None = queue.columns.get("created_at")

    def attribute(self, column: "Column[Any]") -> str:
        """Return the attribute name of this column on a claimed row."""
        mapper = self._queue.mapper
        return str(column.key if mapper is None else mapper.get_property_by_column(column).key)

    def event(self, lease: Lease[Any]) -> Event:
        row = lease.row

        def value(column: "Column[Any]") -> Any:
            return getattr(row, self.attribute(column))

        created = None if self.created_at is None else value(self.created_at)
        return Event(
            id=lease.key,
            type=str(value(self.event_type)),
            aggregate_id=value(self.aggregate_id),
            payload=value(self.payload),
            created_at=as_moment(created, self._queue.epoch),
            attempt=lease.attempt,
            lease=lease,
        )
