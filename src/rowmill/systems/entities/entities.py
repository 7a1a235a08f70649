"""The parts of entities, put together."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import rowmill as rm
from rowmill.systems.common import system
from rowmill.systems.entities import queue
from rowmill.systems.entities.asking.services import Services
from rowmill.systems.entities.kb.base import open_knowledge_base
from rowmill.systems.entities.kb.thing import KnowledgeBase
from rowmill.systems.entities.linking.linker import Linker
from rowmill.systems.entities.migrations import revisions
from rowmill.systems.entities.models import Entity
from rowmill.systems.entities.settings import EntitiesSettings
from rowmill.systems.entities.sources.choose import open_sources
from rowmill.systems.entities.sources.port import Source
from rowmill.systems.entities.stages.handlers import handle


class Entities:
    """A database of entities, and the knowledge bases that they are linked to. `sources` take the place of those that
    the settings name."""

    revisions = revisions

    def __init__(self, settings: EntitiesSettings, *, sources: Sequence[Source] | None = None) -> None:
        self.settings = settings
        self.mill = rm.Mill(settings.database_url)
        self.queue: rm.Queue[Entity] = queue.declare(self.mill)
        self.knowledge_base: KnowledgeBase = open_knowledge_base(settings.knowledge_base)
        self.services = Services(settings, self.mill)
        self.sources = sources if sources is not None else open_sources(settings, self.services, self.knowledge_base)
        self.believed = [source.name for source in self.sources]
        self.linker = Linker(self.sources, threshold=settings.link_threshold, gap=settings.link_gap)
        self._users = 0
        handle(self)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Connected. It may be entered several times, as by a server and the worker beside it: who leaves last
        closes."""
        async with self.mill.opened():
            self._users += 1
            try:
                yield
            finally:
                self._users -= 1
                if not self._users:
                    await self.services.close()

    async def migrate(self) -> None:
        await system.migrate(self)

    async def in_outage(self) -> bool:
        """Is a service taken to be down, by the whole fleet?"""
        for limit in self.services.limits.values():
            if (await limit.state()).breaker == "open":
                return True
        return False
