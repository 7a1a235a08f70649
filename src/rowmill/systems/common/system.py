"""A system, as commands and servers see it."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

import rowmill as rm
from rowmill.systems.common.revisions import Revisions


class System(Protocol):
    """Tables of its own in the database of a mill."""

    mill: rm.Mill
    revisions: Revisions

    def opened(self) -> AbstractAsyncContextManager[None]:
        """Connected for the time of the block. It may be entered several times: who leaves last closes."""


async def migrate(system: System) -> None:
    """Bring the tables to this version, in one transaction, then the indexes that the queue needs."""
    await system.mill.run(system.revisions.upgrade)
    await system.mill.migrate()
