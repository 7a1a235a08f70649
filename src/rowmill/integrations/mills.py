"""What integrations share: how they find a mill and its queues."""

from collections.abc import Callable, Sequence
from functools import cache
from pkgutil import resolve_name
from typing import Any

from rowmill.mill import Mill, Queue
from rowmill.model.errors import DeclarationError

MillSource = Mill | str | Callable[[], Mill]
"""A mill, where to import it from, or a function that returns one."""


def find_mill(source: MillSource) -> Mill:
    """Return the mill of a source, the same each time. It creates no SQLite file that is missing: a wrong path must not
    look like an empty queue."""
    mill = source if isinstance(source, Mill) else made_mill(source)
    mill.store.may_create = False
    return mill


@cache
def made_mill(source: str | Callable[[], Mill]) -> Mill:
    if isinstance(source, str):
        return import_mill(source)
    mill = source()
    if not isinstance(mill, Mill):
        raise _not_a_mill(repr(source), f"it returned no Mill but {type(mill).__name__}")
    return mill


def import_mill(app: str) -> Mill:
    """Import a mill, or call a function that returns one."""
    if ":" not in app:
        raise _not_a_mill(app, "write it as module:name, such as shop:mill")
    try:
        found: Any = resolve_name(app)
    except (ModuleNotFoundError, AttributeError, ValueError) as error:
        raise _not_a_mill(app, f"it can't be imported: {error}") from error
    if not isinstance(found, Mill) and callable(found):
        found = found()
    if not isinstance(found, Mill):
        raise _not_a_mill(app, f"it is no Mill but {type(found).__name__}")
    return found


def _not_a_mill(app: str, problem: str) -> DeclarationError:
    return DeclarationError(app, [problem], "mill")


def as_names(queue: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """Return names of queues as they may be given: one, several, or None for all that have handlers."""
    if queue is None:
        return None
    return (queue,) if isinstance(queue, str) else tuple(queue)


def chosen_queues(mill: Mill, names: Sequence[str] | None) -> list[Queue[Any]]:
    """Return the queues with these names, or all that have handlers. Raises UnknownQueue."""
    if names is None:
        return [queue for queue in mill.queues.values() if queue.handlers]
    return [mill[name] for name in names]
