"""What is asked of a knowledge base, whichever it is."""

from collections.abc import Sequence
from typing import Protocol

from rowmill.systems.entities.things import Candidate, EntityType, Fact, Mention


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
