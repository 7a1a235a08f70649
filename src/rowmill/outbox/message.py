"""The message that a relay publishes, and the interface of a publisher."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from rowmill.outbox.event import Event

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Message:
    """An event in the form for a broker. Its attributes follow CloudEvents: id, source, type, time, subject (the
    aggregate), specversion."""

    subject: str
    """The destination: a NATS subject, a RabbitMQ routing key, or a Kafka topic."""
    key: str | None
    """The aggregate. Messages with the same key stay in order."""
    id: str
    """Unique id, by which a broker or consumer detects duplicates: source and event id. Other outboxes may use the same
    event ids."""
    body: bytes
    attributes: Mapping[str, str]
    content_type: str = JSON

    def headers(self, prefix: str) -> dict[str, str]:
        """Return the attributes as message headers with this prefix."""
        return {f"{prefix}{name}": value for name, value in self.attributes.items()}


class Publisher(Protocol):
    """A client of a broker. `publish` returns once the broker has confirmed the message.

    It raises ProviderDown if the broker is unreachable, TransientError or PermanentError if the broker rejects the
    message. Concurrent calls are allowed.
    """

    async def publish(self, message: Message) -> None: ...

    async def close(self) -> None:
        """Close all connections. Idempotent. The next `publish` connects again."""


Subject = str | Callable[[Event], str] | None
"""Destination of messages: a format string with {type}, {aggregate_id} and {id}, or a function of the event. None: the
event's type."""


def message_of(event: Event, source: str, subject: Subject) -> Message:
    aggregate = None if event.aggregate_id is None else str(event.aggregate_id)
    key = event.lease.queue.key_text(event.id)
    attributes = {"specversion": "1.0", "id": key, "source": source, "type": event.type}
    if aggregate is not None:
        attributes["subject"] = aggregate
    if event.created_at is not None:
        attributes["time"] = event.created_at.isoformat()
    return Message(
        subject=subject_of(event, subject),
        key=aggregate,
        id=f"{source}:{key}",
        body=body_of(event.payload),
        attributes=attributes,
    )


def subject_of(event: Event, subject: Subject) -> str:
    if subject is None:
        return event.type
    if callable(subject):
        return subject(event)
    return subject.format(type=event.type, aggregate_id=event.aggregate_id, id=event.id)


def body_of(payload: Any) -> bytes:
    """Encode a payload as JSON. Text and bytes are JSON already."""
    match payload:
        case bytes():
            return payload
        case str():
            return payload.encode()
        case _:
            return json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()
