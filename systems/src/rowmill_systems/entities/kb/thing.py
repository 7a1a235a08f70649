"""A thing of the embedded knowledge base, and the interface to search it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from rowmill_systems.parts.names.types import EntityType


@dataclass(frozen=True, slots=True)
class Thing:
    id: str
    name: str
    types: frozenset[EntityType] = frozenset()
    aliases: tuple[str, ...] = ()
    description: str = ""
    prominence: float = 0.0
    """From 0 to 1."""
    properties: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """By key of the catalogue of properties; values as those of a Fact."""
    wikidata_id: str | None = None
    dbpedia_uri: str | None = None


class ThingIndex(Protocol):
    """Read-only, and safe for threads."""

    title: str

    def search(self, name: str, *, most: int = 10, type: EntityType | None = None) -> Sequence[Thing]:
        """Return things with such a name or alias, the closest first, also if a letter is wrong, or a word or accents
        are missing. With a type, only things of that type, and those without one."""

    def complete(self, prefix: str, *, most: int = 10, type: EntityType | None = None) -> Sequence[Thing]:
        """Return things with a name or alias that begins so, the best known first."""

    def get(self, id: str) -> Thing | None: ...

    def __len__(self) -> int: ...
