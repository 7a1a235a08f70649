"""The embedded knowledge base as a source, without a network."""

import asyncio
from collections.abc import Sequence

from rowmill_systems.entities.kb.thing import Thing, ThingIndex
from rowmill_systems.entities.properties.catalogue import properties_of
from rowmill_systems.entities.things import Candidate, Fact, Mention
from rowmill_systems.parts.names.types import EntityType

NAME = "embedded"
MOST = 10


class EmbeddedSource:
    """Searches in a thread, since a large file may have to be read from disk."""

    name = NAME

    def __init__(self, knowledge_base: ThingIndex) -> None:
        self._knowledge_base = knowledge_base

    async def candidates(self, mention: Mention) -> Sequence[Candidate]:
        """Return candidates of every type: the type of the mention may be wrong."""
        things = await asyncio.to_thread(found, self._knowledge_base, mention)
        return [candidate_of(thing) for thing in things]

    async def facts(self, id: str, type: EntityType | None) -> Sequence[Fact]:
        thing = await asyncio.to_thread(self._knowledge_base.get, id)
        if thing is None:
            return []
        return [
            Fact(each.key, thing.properties[each.key], NAME, thing.id)
            for each in properties_of(type)
            if each.key in thing.properties
        ]

    async def close(self) -> None:
        """Does nothing: the caller closes the knowledge base that it opened."""


def found(knowledge_base: ThingIndex, mention: Mention, most: int = MOST) -> Sequence[Thing]:
    """Return the things that may be meant. Blocks: call it in a thread."""
    anything = knowledge_base.search(mention.name, most=most)
    if mention.type is None or len(anything) < most:
        return anything
    # There are so many of the name that the type has to choose among them.
    typed = knowledge_base.search(mention.name, most=most, type=mention.type)
    return list({thing.id: thing for thing in (*typed, *anything)}.values())[:most]


def candidate_of(thing: Thing) -> Candidate:
    return Candidate(
        source=NAME,
        id=thing.id,
        name=thing.name,
        aliases=thing.aliases,
        types=thing.types,
        description=thing.description,
        prominence=thing.prominence,
        facts=thing.properties,
        wikidata_id=thing.wikidata_id,
        dbpedia_uri=thing.dbpedia_uri,
    )
