"""What a limit, an outbox or a reconciliation needs of its mill. The mill imports these packages, not the reverse."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeVar

from sqlalchemy import Connection
from sqlalchemy.engine import URL

from rowmill.observe.events import Events
from rowmill.store.port import Store

T = TypeVar("T")


class MillPort(Protocol):
    """A mill, as the packages below it see it."""

    url: URL
    store: Store
    events: Events

    def opened(self) -> AbstractAsyncContextManager[Store]:
        """Keep the database connected for the time of the block."""

    async def run(self, work: Callable[[Connection], T], *, write: bool = True) -> T:
        """Run a function on a connection, in its own transaction."""
