"""A system of entities on a database of its own, and a source that returns what a test says."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import sqlalchemy as sa

from rowmill.testing import QUICK, Bench
from rowmill_systems.entities.entities import Entities
from rowmill_systems.entities.models import COLUMNS, EntityId
from rowmill_systems.entities.settings import EntitiesSettings
from rowmill_systems.entities.sources.port import Source
from rowmill_systems.entities.submitting import submit
from rowmill_systems.entities.things import Candidate, Fact, Mention
from rowmill_systems.parts.names.types import EntityType


class FakeSource:
    """A source that knows things by their exact names, records its questions, and fails on demand."""

    def __init__(self, name: str = "wikidata") -> None:
        self.name = name
        self.things: dict[str, str] = {}
        self.known: dict[str, dict[str, tuple[Any, ...]]] = {}
        self.asked: list[str] = []
        self.failure: Exception | None = None
        self.failing: str | None = None
        """`candidates` or `facts`; both without."""
        self.go = asyncio.Event()
        self.go.set()
        self.asking = asyncio.Event()
        self.stop_at = ""
        """A question at which it waits to be let go on."""

    def learn(self, name: str, id: str, **facts: Any) -> None:
        self.things[name] = id
        self.known[id] = {key: value if isinstance(value, tuple) else (value,) for key, value in facts.items()}

    async def _answer(self, what: str, about: str) -> None:
        self.asked.append(f"{what} {about}")
        if what == self.stop_at:
            self.go.clear()
        self.asking.set()
        await self.go.wait()
        if self.failure is not None and self.failing in (None, what):
            raise self.failure

    async def candidates(self, mention: Mention) -> Sequence[Candidate]:
        await self._answer("candidates", mention.name)
        id = self.things.get(mention.name)
        if id is None:
            return []
        wikidata = id if self.name == "wikidata" else None
        dbpedia = id if self.name == "dbpedia" else None
        types = frozenset({mention.type}) if mention.type else frozenset()
        return [Candidate(self.name, id, mention.name, types=types, wikidata_id=wikidata, dbpedia_uri=dbpedia)]

    async def facts(self, id: str, type: EntityType | None) -> Sequence[Fact]:
        await self._answer("facts", id)
        return [Fact(key, values, self.name, id) for key, values in self.known.get(id, {}).items()]

    async def close(self) -> None:
        pass


class EntitiesHarness:
    """A system of entities, and what a test asks of it."""

    def __init__(self, entities: Entities) -> None:
        self.entities, self.mill, self.tables = entities, entities.mill, entities.tables
        self.bench = Bench(entities.mill)

    async def put(self, name: str, **more: Any) -> EntityId:
        [id] = await self.put_all({"name": name, **more})
        return id

    async def put_all(self, *rows: dict[str, Any]) -> list[EntityId]:
        return await self.mill.run(lambda connection: submit(self.entities, connection, rows))

    async def execute(self, statement: Any) -> None:
        """In a transaction of its own, as another program would."""
        await self.mill.run(lambda connection: connection.execute(statement).close())

    async def drain(self) -> None:
        await self.mill.drain(settings=QUICK)

    async def drain_until_asked(self, fake_source: FakeSource, question: str) -> None:
        """Work until the source is asked this once more. On a slow machine a drain would wait for the next try, too."""
        before = fake_source.asked.count(question)
        async with self.mill.worker(settings=QUICK) as worker:
            running = asyncio.create_task(worker.run())
            while fake_source.asked.count(question) == before:
                await fake_source.asking.wait()
                fake_source.asking.clear()
            worker.stop()
            await running

    async def read(self, statement: "sa.Select[*tuple[Any, ...]]") -> Sequence[Any]:
        return await self.mill.run(lambda connection: connection.execute(statement).all(), write=False)

    async def entity(self, id: EntityId) -> Any:
        """As the row has it, by attribute."""
        entity = self.tables.entity
        columns = (getattr(entity, name).label(name) for name in COLUMNS.values())
        [row] = await self.read(sa.select(*columns).where(entity.id == id))
        return row

    async def status(self, id: EntityId) -> str:
        return str((await self.entity(id)).enrichment_status)

    async def merged(self, id: EntityId) -> dict[str, list[Any]]:
        """By property, the values."""
        found = (await self.entity(id)).enriched_properties or {}
        return {key: [each["value"] for each in values] for key, values in found.items()}

    async def facts(self, id: EntityId) -> Sequence[Any]:
        fact = self.tables.fact
        return await self.read(sa.select(fact.__table__).where(fact.entity_id == id))

    async def conflicts(self, id: EntityId) -> Sequence[Any]:
        conflict = self.tables.conflict
        wanted = sa.select(conflict.__table__).where(conflict.entity_id == id)
        return await self.read(wanted.order_by(conflict.id))

    async def history(self, id: EntityId) -> list[str]:
        """What happened, the oldest first."""
        change = self.tables.change
        wanted = sa.select(change.kind).where(change.entity_id == id).order_by(change.id)
        return [row.kind for row in await self.read(wanted)]


@asynccontextmanager
async def entities_on(url: str, *sources: Source, **more: Any) -> AsyncIterator[EntitiesHarness]:
    """With these sources, or those that the settings name."""
    entities = Entities(EntitiesSettings(**{"database_url": url} | more), sources=sources or None)
    async with entities.opened():
        await entities.migrate()
        yield EntitiesHarness(entities)
