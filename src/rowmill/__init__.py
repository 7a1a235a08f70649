"""Rowmill: your table is the queue.

What most applications use is here. The rest is in `rowmill.errors`, `rowmill.limits`, `rowmill.outbox`,
`rowmill.schedules`, `rowmill.reconcile`, `rowmill.operator`, `rowmill.worker`, `rowmill.observe`, `rowmill.typing` and
`rowmill.testing`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rowmill.model.errors import PermanentError, RateLimited, RowmillError, TransientError
from rowmill.model.outcome import Cancel, Dead, Done, Outcome, RetryLater
from rowmill.model.retry import Retry, days, exponential, fixed, hours, minutes, seconds, steps

if TYPE_CHECKING:
    from rowmill import errors as errors
    from rowmill import limits as limits
    from rowmill import observe as observe
    from rowmill import operator as operator
    from rowmill import outbox as outbox
    from rowmill import reconcile as reconcile
    from rowmill import schedules as schedules
    from rowmill import typing as typing
    from rowmill import worker as worker
    from rowmill.mill import Mill, Queue
    from rowmill.model.lease import Batch, Lease
    from rowmill.model.mixin import QueueMixin
    from rowmill.model.queue import Columns, CrashCodes, Order, OrderPerKey, Retention
    from rowmill.model.states import Stage, States
    from rowmill.store.rows import Record

__version__ = "0.1.0"

__all__ = [
    "Batch",
    "Cancel",
    "Columns",
    "CrashCodes",
    "Dead",
    "Done",
    "Lease",
    "Mill",
    "Order",
    "OrderPerKey",
    "Outcome",
    "PermanentError",
    "Queue",
    "QueueMixin",
    "RateLimited",
    "Record",
    "Retention",
    "Retry",
    "RetryLater",
    "RowmillError",
    "Stage",
    "States",
    "TransientError",
    "days",
    "exponential",
    "fixed",
    "hours",
    "minutes",
    "seconds",
    "steps",
]

LATER = {
    "mill": ("Mill", "Queue"),
    "model.lease": ("Batch", "Lease"),
    "model.mixin": ("QueueMixin",),
    "model.queue": ("Columns", "CrashCodes", "Order", "OrderPerKey", "Retention"),
    "model.states": ("Stage", "States"),
    "store.rows": ("Record",),
}
"""Names that need SQLAlchemy, or even its ORM, by the modules that they come from. A process that raises our errors and
talks to no database starts without them."""
SUBMODULES = ("errors", "limits", "observe", "operator", "outbox", "reconcile", "schedules", "typing", "worker")
RENAMED = {"Again": "RetryLater", "Crash": "CrashCodes", "InOrder": "OrderPerKey", "Keep": "Retention"}

if not TYPE_CHECKING:  # a type checker would take it for a sign that any name exists

    def __getattr__(name: str) -> Any:
        """Import a submodule, or the module of a name in LATER, at its first use: a process starts sooner without what
        it does not use. For a name that left the root, raise AttributeError that says where it is, or what it is called
        now."""
        if name in SUBMODULES:
            return import_module(f"{__name__}.{name}")
        for module, names in LATER.items():
            if name in names:
                found = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
                return found
        if name in RENAMED:
            raise AttributeError(f"rowmill.{name} is called rowmill.{RENAMED[name]} now", name=name)
        for module in () if name.startswith("_") else SUBMODULES:
            if name in import_module(f"{__name__}.{module}").__all__:
                raise AttributeError(f"rowmill.{name} is now rowmill.{module}.{name}", name=name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
