"""A system, as commands and servers see it."""

from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Protocol

import rowmill as rm
from rowmill.systems.common.revisions import Revisions


class System(Protocol):
    """Tables of its own in the database of a mill."""

    mill: rm.Mill
    revisions: Revisions

    def opened(self) -> AbstractAsyncContextManager[None]:
        """Connected for the time of the block. It may be entered several times: who leaves last closes."""

    async def migrate(self) -> None:
        """Bring the tables to this version."""


async def migrate(system: System, **settings: Any) -> None:
    """Bring the tables to this version, in one transaction, then the indexes that the queue needs. `settings` are for
    the revisions."""
    await system.mill.run(partial(system.revisions.upgrade, **settings))
    await system.mill.migrate()
