"""The catalogue of properties: by type of thing, with each source's name for them."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal, get_args

from rowmill_systems.parts.names.types import EntityType

Kind = Literal["text", "date", "number", "amount", "thing", "place", "url", "id"]


@dataclass(frozen=True, slots=True)
class Property:
    key: str
    label: str
    kind: Kind
    types: frozenset[EntityType]
    """Of things that may have it; empty: of any."""
    many: bool = False
    """It may have several values at once: those of all sources are taken together, and contradict nobody."""
    drifts: float = 0.0
    """Numbers that differ by no more than this part are the same: they change, and sources are of different days."""
    wikidata: str | None = None
    """P569, and so on."""
    dbpedia: tuple[str, ...] = ()
    """Names in http://dbpedia.org/ontology/."""

    def fits(self, type: EntityType | None) -> bool:
        return type is None or not self.types or type in self.types


@cache
def catalogue() -> dict[str, Property]:
    """Return all properties by key, in the order of the file."""
    text = (files(__package__) / "catalogue.toml").read_text("utf-8")
    return {each.key: each for each in (_property(given) for given in tomllib.loads(text)["property"])}


def properties_of(type: EntityType | None) -> Sequence[Property]:
    """Return the properties that a thing of this type may have; None: all properties."""
    return [each for each in catalogue().values() if each.fits(type)]


def _property(given: dict[str, object]) -> Property:
    kind = given["kind"]
    assert kind in get_args(Kind), kind
    types, dbpedia = given.get("types", []), given.get("dbpedia", [])
    assert isinstance(types, list)
    assert isinstance(dbpedia, list)
    rest = {name: value for name, value in given.items() if name not in ("types", "dbpedia")}
    return Property(**rest, types=frozenset(map(EntityType, types)), dbpedia=tuple(dbpedia))  # type: ignore[arg-type]
