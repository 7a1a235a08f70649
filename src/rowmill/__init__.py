"""Rowmill: your table is the queue."""

from rowmill import reconcile
from rowmill.limits import Call, Limit, LimitState, together
from rowmill.mill import BatchAnswer, Mill, Queue
from rowmill.model.alerts import Alerts
from rowmill.model.errors import (
    BadRequest,
    ColumnNotLoaded,
    DatabaseUnreachable,
    DeclarationError,
    InventoryError,
    LeaseLost,
    Limited,
    PermanentError,
    ProviderDown,
    ProviderRefused,
    RateLimited,
    ReconciliationBusy,
    RowmillError,
    SchemaMismatch,
    TransactionMisused,
    TransientError,
    UnknownOption,
    UnknownQueue,
    UnknownRow,
    WorkError,
)
from rowmill.model.lease import Batch, Lease
from rowmill.model.limits import Breaker, Budget, Rate
from rowmill.model.mixin import QueueMixin
from rowmill.model.outcome import Answer, Cancel, Dead, Done, Outcome, RetryLater
from rowmill.model.queue import Columns, CrashCodes, Order, OrderPerKey, Retention
from rowmill.model.retry import Retry, days, exponential, fixed, hours, minutes, seconds, steps
from rowmill.model.schedule import Tick
from rowmill.model.states import Stage, States
from rowmill.operator.browse import RowView
from rowmill.operator.counts import RowCounts
from rowmill.operator.why import Why
from rowmill.outbox.event import Event
from rowmill.outbox.inbox import Inbox, InboxColumns
from rowmill.outbox.message import Message, Publisher
from rowmill.outbox.outbox import Outbox
from rowmill.outbox.queries import OutboxStats
from rowmill.outbox.table import OutboxColumns, OutboxMixin, outbox_table
from rowmill.store.rows import Record
from rowmill.worker.report import Report
from rowmill.worker.settings import WorkerSettings
from rowmill.worker.worker import Worker

__version__ = "0.1.0"

__all__ = [
    "Alerts",
    "Answer",
    "BadRequest",
    "Batch",
    "BatchAnswer",
    "Breaker",
    "Budget",
    "Call",
    "Cancel",
    "ColumnNotLoaded",
    "Columns",
    "CrashCodes",
    "DatabaseUnreachable",
    "Dead",
    "DeclarationError",
    "Done",
    "Event",
    "Inbox",
    "InboxColumns",
    "InventoryError",
    "Lease",
    "LeaseLost",
    "Limit",
    "LimitState",
    "Limited",
    "Message",
    "Mill",
    "Order",
    "OrderPerKey",
    "Outbox",
    "OutboxColumns",
    "OutboxMixin",
    "OutboxStats",
    "Outcome",
    "PermanentError",
    "ProviderDown",
    "ProviderRefused",
    "Publisher",
    "Queue",
    "QueueMixin",
    "Rate",
    "RateLimited",
    "ReconciliationBusy",
    "Record",
    "Report",
    "Retention",
    "Retry",
    "RetryLater",
    "RowCounts",
    "RowView",
    "RowmillError",
    "SchemaMismatch",
    "Stage",
    "States",
    "Tick",
    "TransactionMisused",
    "TransientError",
    "UnknownOption",
    "UnknownQueue",
    "UnknownRow",
    "Why",
    "WorkError",
    "Worker",
    "WorkerSettings",
    "__version__",
    "days",
    "exponential",
    "fixed",
    "hours",
    "minutes",
    "outbox_table",
    "reconcile",
    "seconds",
    "steps",
    "together",
]
