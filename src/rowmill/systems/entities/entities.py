"""The parts of entities, put together."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import rowmill as rm
from rowmill.systems.common import system
from rowmill.systems.entities import queue
from rowmill.systems.entities.asking.answers import forget_expired
from rowmill.systems.entities.asking.desk import Desk, declare_limits, open_services
from rowmill.systems.entities.kb.base import open_knowledge_base
from rowmill.systems.entities.kb.thing import KnowledgeBase
from rowmill.systems.entities.linking.linker import Linker
from rowmill.systems.entities.migrations import revisions
from rowmill.systems.entities.models import Entity
from rowmill.systems.entities.settings import EntitiesSettings
from rowmill.systems.entities.sources.choose import names_of, open_sources
from rowmill.systems.entities.sources.port import Source
from rowmill.systems.entities.stages.handlers import handle


class Entities:
    """A database of entities, and the knowledge bases that they are linked to. `sources` take the place of those that
    the settings name. Workers of one that does not `enrich` link, and leave the rest to others."""

    revisions = revisions

    def __init__(
        self, settings: EntitiesSettings, *, sources: Sequence[Source] | None = None, enrich: bool = True
    ) -> None:
        self.settings = settings
        self.mill = rm.Mill(settings.database_url)
        self.queue: rm.Queue[Entity] = queue.declare(self.mill)
        self.knowledge_base: KnowledgeBase = open_knowledge_base(settings.knowledge_base)
        self.believed = [source.name for source in sources] if sources is not None else names_of(settings)
        self.limits = declare_limits(settings, self.mill)
        """Of the services that are asked, by their names."""
        self.sources: Sequence[Source] = ()
        """While it is opened."""
        self._given, self._users = sources, 0
        self._desk: Desk | None = None
        handle(self, enrich=enrich)

        @self.mill.every("entities-forget", rm.hours(1))
        async def forget(tick: rm.Tick) -> None:
            """Answers of services that hold no longer."""
            await forget_expired(self.mill)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Connected, and the services at hand. It may be entered several times, as by a server and the worker beside
        it: who leaves last closes."""
        async with self.mill.opened():
            if not self._users:
                self._desk = open_services(self.settings, self.mill)
                self.sources = self._given or open_sources(self.settings, self._desk, self.knowledge_base)
            self._users += 1
            try:
                yield
            finally:
                self._users -= 1
                if not self._users and self._desk is not None:
                    await self._desk.close()

    @property
    def linker(self) -> Linker:
        return Linker(self.sources, threshold=self.settings.link_threshold, gap=self.settings.link_gap)

    async def migrate(self) -> None:
        await system.migrate(self)

    async def in_outage(self) -> bool:
        """Is a service taken to be down, by the whole fleet?"""
        for limit in self.limits.values():
            if (await limit.state()).breaker == "open":
                return True
        return False
