"""The embedded knowledge base as a source: nobody has to be asked over a network."""

import asyncio
from collections.abc import Sequence

from rowmill.systems.entities.kb.thing import KnowledgeBase, Thing
from rowmill.systems.entities.properties.catalogue import properties_of
from rowmill.systems.entities.things import Candidate, EntityType, Fact, Mention

NAME = "embedded"
MOST = 10


class EmbeddedSource:
    """Answers beside the loop, since a search in a large file can wait for the disk."""

    name = NAME

    def __init__(self, knowledge_base: KnowledgeBase) -> None:
        self._knowledge_base = knowledge_base

    async def candidates(self, mention: Mention) -> Sequence[Candidate]:
        """Of every type: whoever extracted the name may have been wrong about it."""
        found = await asyncio.to_thread(self._found, mention)
        return [_candidate(thing) for thing in found]

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
        """Whoever opened the knowledge base closes it: others may ask it too."""

    def _found(self, mention: Mention) -> Sequence[Thing]:
        anything = self._knowledge_base.search(mention.name, most=MOST)
        if mention.type is None or len(anything) < MOST:
            return anything
        # There are so many of the name that the type has to choose among them.
        typed = self._knowledge_base.search(mention.name, most=MOST, type=mention.type)
        return list({thing.id: thing for thing in (*typed, *anything)}.values())[:MOST]


def _candidate(thing: Thing) -> Candidate:
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
