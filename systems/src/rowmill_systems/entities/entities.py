"""The system: its mill, queue, tables, limits and sources."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import rowmill as rm
from rowmill import systems
from rowmill_systems.entities import null_status, queue
from rowmill_systems.entities.foreign_table import check_table
from rowmill_systems.entities.kb.base import open_knowledge_base
from rowmill_systems.entities.kb.thing import ThingIndex
from rowmill_systems.entities.linking.linker import Linker
from rowmill_systems.entities.migrations import revisions_of
from rowmill_systems.entities.models import COLUMNS, Entity, Shape, Tables, tables_of
from rowmill_systems.entities.services import answer_cache, declare_limits, open_services
from rowmill_systems.entities.settings import EntitiesSettings
from rowmill_systems.entities.sources.choose import names_of, open_sources
from rowmill_systems.entities.sources.port import Source
from rowmill_systems.entities.stages.handlers import handle
from rowmill_systems.parts.services.open import HttpServices


class Entities:
    """A database of entities, and the knowledge bases that they are linked to.

    `sources` replace those of the settings. With `enrich=False` its workers only link.
    """

    def __init__(
        self, settings: EntitiesSettings, *, sources: Sequence[Source] | None = None, enrich: bool = True
    ) -> None:
        self.settings = settings
        self.mill = rm.Mill(settings.database_url)
        self.tables: Tables = tables_of(shape_of(settings))
        self.revisions = revisions_of(self.tables.shape)
        self.queue: rm.Queue[Entity] = queue.declare(self.mill, self.tables, settings)
        self.knowledge_base: ThingIndex = open_knowledge_base(settings.knowledge_base)
        self.believed = [source.name for source in sources] if sources is not None else names_of(settings)
        self.limits = declare_limits(settings, self.mill)
        """The limits of services, by name."""
        self.sources: Sequence[Source] = ()
        """Set while it is opened."""
        self._given, self._users = sources, 0
        self._services: HttpServices | None = None
        handle(self, enrich=enrich)

        @self.mill.every("entities-forget", rm.hours(1))
        async def forget(tick: rm.schedules.Tick) -> None:
            """Answers of services that hold no longer."""
            await answer_cache(self.mill).delete_expired()

        @self.mill.every("entities-null-status", rm.minutes(1))
        async def sweep(tick: rm.schedules.Tick) -> None:
            """Rows without a status that no trigger saw."""
            while await self.mill.run(lambda connection: null_status.sweep(connection, self.tables)):
                pass

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Connect, and open the services.

        It may be entered several times, as by a server and the worker beside it; the last one to leave closes it.
        """
        async with self.mill.opened():
            if not self._users:
                await self.mill.run(lambda connection: check_table(connection, self.tables.shape), write=False)
                self._services = open_services(self.settings, self.mill)
                self.sources = self._given or open_sources(self.settings, self._services, self.knowledge_base)
            self._users += 1
            try:
                yield
            finally:
                self._users -= 1
                if not self._users and self._services is not None:
                    await self._services.close()

    @property
    def linker(self) -> Linker:
        return Linker(self.sources, threshold=self.settings.link_threshold, gap=self.settings.link_gap)

    async def migrate(self) -> None:
        await systems.migrate(self)

    async def in_outage(self) -> bool:
        """Tell whether the breaker of a service is open, in the whole fleet."""
        for limit in self.limits.values():
            if (await limit.state()).breaker == "open":
                return True
        return False


def shape_of(settings: EntitiesSettings) -> Shape:
    """Return the shape of the table that the settings describe."""
    problems = [f"columns: there is no column {name} to rename. There are: {', '.join(COLUMNS)}"
                for name in settings.columns if name not in COLUMNS]  # fmt: skip
    if len(set(settings.columns.values())) < len(settings.columns):
        problems.append("columns: two are renamed to the same name")
    if problems:
        raise rm.errors.DeclarationError("entities", problems, kind="settings of")
    return Shape(frozenset(settings.columns.items()), settings.id_type)
