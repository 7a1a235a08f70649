"""What an outbox or inbox needs of its mill."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from sqlalchemy import Connection

from rowmill.observe.events import Events
from rowmill.store.port import Store

T = TypeVar("T")


class OutboxMill(Protocol):
    store: Store
    events: Events

    async def run(self, work: Callable[[Connection], T], *, write: bool = True) -> T: ...
