"""Candidates and mentions, in short."""

from typing import Any

from rowmill_systems.entities.things import Candidate, Mention
from rowmill_systems.parts.names.types import EntityType

PERSON, ORGANISATION, PLACE = EntityType.PERSON, EntityType.ORGANISATION, EntityType.PLACE
WORK, EVENT, OTHER = EntityType.WORK, EntityType.EVENT, EntityType.OTHER


def candidate(name: str, type: EntityType | None = None, description: str = "", **rest: Any) -> Candidate:
    rest = {"source": "embedded", "id": f"{name} {description}", "prominence": 0.5, **rest}
    return Candidate(name=name, types=frozenset({type} if type else ()), description=description, **rest)


def mention(name: str, type: EntityType | None = None, context: str = "", **known: Any) -> Mention:
    return Mention(name, type, context, known)


BASKETBALL = candidate(
    "Michael Jordan",
    PERSON,
    "American basketball player of the Chicago Bulls",
    id="jordan",
    aliases=("Air Jordan", "Michael Jeffrey Jordan"),
    prominence=0.9,
    facts={"birth_date": ("1963-02-17",), "occupation": ({"id": "p", "label": "basketball player"},)},
    wikidata_id="Q41421",
)
PROFESSOR = candidate(
    "Michael I. Jordan",
    PERSON,
    "American computer scientist, professor of machine learning at Berkeley",
    id="professor",
    aliases=("Michael Jordan",),
    prominence=0.4,
    facts={"birth_date": ("1956-02-25",)},
    wikidata_id="Q3308285",
)
