"""Transactional outbox: events are written in the transaction of your change, and dispatched afterwards in order per
aggregate."""

from rowmill.outbox.event import Event
from rowmill.outbox.inbox import Inbox, InboxColumns
from rowmill.outbox.message import Message, Publisher
from rowmill.outbox.outbox import Outbox
from rowmill.outbox.queries import OutboxStats
from rowmill.outbox.table import OutboxColumns, OutboxMixin, outbox_table

__all__ = [
    "Event",
    "Inbox",
    "InboxColumns",
    "Message",
    "Outbox",
    "OutboxColumns",
    "OutboxMixin",
    "OutboxStats",
    "Publisher",
    "outbox_table",
]
