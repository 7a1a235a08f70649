"""A system as its commands and its server see it."""

from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from rowmill.mill import Mill

if TYPE_CHECKING:
    from rowmill.systems.revisions import Revisions


class System(Protocol):
    """An application with tables of its own in the database of a mill."""

    mill: Mill
    revisions: "Revisions"

    def opened(self) -> AbstractAsyncContextManager[None]:
        """Hold the system's connections open during the block. Reentrant: the last block to end closes them."""

    async def migrate(self) -> None:
        """Bring the tables to this version."""


async def migrate(system: System, **attributes: Any) -> None:
    """Run the revisions in one transaction, then create the indexes that the queues need.

    Revisions find `attributes` in Alembic's `context.config.attributes`.
    """
    await system.mill.run(partial(system.revisions.upgrade, **attributes))
    await system.mill.migrate()
