"""What every source offers."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from rowmill_systems.entities.things import Candidate, Fact, Mention
from rowmill_systems.parts.names.types import EntityType


class Source(Protocol):
    """A knowledge base.

    A source that can't be asked raises ProviderDown, RateLimited, ProviderRefused or Limited; an empty answer means
    that it knows nothing.
    """

    name: str

    async def candidates(self, mention: Mention) -> Sequence[Candidate]:
        """Return the things that may be meant, the likeliest first, some ten at most."""

    async def facts(self, id: str, type: EntityType | None) -> Sequence[Fact]:
        """Return the facts of a thing, of the properties of its type; of all properties without a type.

        Empty if the source does not know the thing any more.
        """

    async def close(self) -> None: ...


@runtime_checkable
class KnowsWikidata(Protocol):
    """A source that can look up the Wikidata id of its things, though its candidates don't have it."""

    name: str

    async def wikidata_id(self, id: str) -> str | None:
        """Return the Wikidata id of a thing, if it is known. Raises as Source does."""
