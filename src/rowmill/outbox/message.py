"""What a relay hands to a broker, and what a broker's publisher has to promise."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from rowmill.outbox.event import Event

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Message:
    """An event on its way. Its attributes are named as in CloudEvents: id, source, type, time, subject (the
    aggregate), specversion."""

    subject: str
    """Where it goes: a subject of NATS, a routing key of RabbitMQ, a topic of Kafka."""
    key: str | None
    """The aggregate, whose messages have to stay in order."""
    id: str
    """By which a broker or a consumer knows it again: the event's id, and the source, since ids of other outboxes are
    numbers too."""
    body: bytes
    attributes: Mapping[str, str]
    content_type: str = JSON

    def headers(self, prefix: str) -> dict[str, str]:
        """The attributes as this broker's headers are called."""
        return {f"{prefix}{name}": value for name, value in self.attributes.items()}


class Publisher(Protocol):
    """A broker. `publish` returns when the message is confirmed, and raises otherwise: ProviderDown when the broker is
    away, TransientError or PermanentError for what it says of the message. It may be called many times at once."""

    async def publish(self, message: Message) -> None: ...

    async def close(self) -> None:
        """Let go of every connection. Twice is fine, and the next `publish` connects again."""


Subject = str | Callable[[Event], str] | None
"""Where messages go: a text, in which {type}, {aggregate_id} and {id} stand for the event's own, or a function of the
event. Without one, to the event's type."""


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
    """A payload that is kept as text or bytes is JSON already."""
    match payload:
        case bytes():
            return payload
        case str():
            return payload.encode()
        case _:
            return json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()
