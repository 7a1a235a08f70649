"""What is asked of a knowledge base, whichever it is."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from rowmill_systems.entities.things import Candidate, Fact, Mention
from rowmill_systems.parts.names.types import EntityType


class Source(Protocol):
    """Whoever can't be asked raises, and nothing is concluded from that: ProviderDown, RateLimited, ProviderRefused or
    Limited. An empty answer is a real one."""

    name: str

    async def candidates(self, mention: Mention) -> Sequence[Candidate]:
        """Who may be meant, the likeliest first, some ten at the most."""

    async def facts(self, id: str, type: EntityType | None) -> Sequence[Fact]:
        """What it knows of a thing, of the properties that things of this type have (of any type, without one). Empty
        if it does not know the thing any more."""

    async def close(self) -> None: ...


@runtime_checkable
class KnowsWikidata(Protocol):
    """A source whose data say what Wikidata calls a thing, though its candidates do not."""

    name: str

    async def wikidata_id(self, id: str) -> str | None:
        """Of the same thing, if it is known. Raises as a source does."""
