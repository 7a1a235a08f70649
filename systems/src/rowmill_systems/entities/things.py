"""The nouns of linking: mention, candidate, link, fact."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rowmill_systems.parts.names.types import EntityType


@dataclass(frozen=True, slots=True)
class Mention:
    """A name in a text, and what is known of the thing that it means."""

    name: str
    type: EntityType | None = None
    """None: nobody said."""
    context: str = ""
    """Words around it."""
    known: Mapping[str, Any] = field(default_factory=dict)
    """Local facts by property, as on the entity's row."""


def local_facts(given: Any) -> dict[str, Any]:
    """Return the local facts of a row.

    Programs that write rows by SQL may put any JSON there: anything but an object is ignored.
    """
    return given if isinstance(given, dict) else {}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A thing of a knowledge base that may be meant."""

    source: str
    id: str
    """As the source calls it: Q42, http://dbpedia.org/resource/Berlin, an id of its own."""
    name: str
    aliases: tuple[str, ...] = ()
    """Other names, in any language."""
    types: frozenset[EntityType] = frozenset()
    """Empty: the source does not say."""
    description: str = ""
    prominence: float = 0.0
    """How well known it is, from 0 to 1, as far as the source can tell."""
    facts: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """By property; those that the source gave along with the candidate, as a second opinion on who is meant."""
    wikidata_id: str | None = None
    dbpedia_uri: str | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """The chosen thing, with its ids in all knowledge bases that are known to have it."""

    confidence: float
    """From 0 to 1."""
    source: str
    """Who knew it: names of sources, joined by `+`."""
    label: str
    wikidata_id: str | None = None
    dbpedia_uri: str | None = None
    other_ids: Mapping[str, str] = field(default_factory=dict)
    """Ids in other sources: of the embedded knowledge base, of services of the Reconciliation API."""

    def id_in(self, source: str) -> str | None:
        match source:
            case "wikidata":
                return self.wikidata_id
            case "dbpedia":
                return self.dbpedia_uri
        return self.other_ids.get(source)


@dataclass(frozen=True, slots=True)
class Offered:
    """A candidate with its score, as a person sees it."""

    link: Link
    """What the entity would be linked to; its confidence is the score."""
    description: str
    types: tuple[str, ...]
    reasons: Mapping[str, float]
    """What the score is made of: name, type, context, facts, prominence."""


@dataclass(frozen=True, slots=True)
class Fact:
    """What one source says of one property of a thing.

    Values are plain JSON: text, numbers, true and false; dates as 1815-12-10, 1815-12 or 1815 (before Christ with a
    minus); other things as {"id": …, "label": …}; places as {"lat": …, "lon": …}; amounts with a unit as
    {"amount": …, "unit": …}.
    """

    property: str
    values: tuple[Any, ...]
    source: str
    ref: str
    """The thing's id in that source."""
