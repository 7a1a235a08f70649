"""The types and properties that a client can name."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rowmill_systems.entities.kb.thing import Thing
from rowmill_systems.entities.properties.catalogue import Property, catalogue, properties_of
from rowmill_systems.parts.names.types import EntityType

TYPE_NAMES = {
    EntityType.PERSON: "Person",
    EntityType.ORGANISATION: "Organisation",
    EntityType.PLACE: "Place",
    EntityType.WORK: "Work",
    EntityType.EVENT: "Event",
    EntityType.OTHER: "Something else",
}


@dataclass(frozen=True, slots=True)
class Term:
    """A type or a property, as the API returns it."""

    id: str
    name: str
    description: str = ""

    def shown(self) -> dict[str, str]:
        said = {"id": self.id, "name": self.name}
        return said | {"description": self.description} if self.description else said


OF_EVERY_THING: Mapping[str, tuple[Term, Callable[[Thing], Sequence[Any]]]] = {
    word.id: (word, get)
    for word, get in (
        (Term("description", "Description"), lambda thing: _some(thing.description)),
        (Term("alias", "Also called"), lambda thing: thing.aliases),
        (Term("type", "Type"), lambda thing: [each["name"] for each in types_of(thing.types)]),
        (Term("wikidata_id", "Wikidata id"), lambda thing: _some(thing.wikidata_id)),
        (Term("dbpedia_uri", "DBpedia URI"), lambda thing: _some(thing.dbpedia_uri)),
    )
}
"""What stands beside the catalogue's properties: it can be fetched, and nothing is compared with it."""


def types_of(types: Iterable[EntityType]) -> list[dict[str, str]]:
    """Return types as the API returns them, in the order of their declaration."""
    given = set(types)
    return [Term(each.value, name).shown() for each, name in TYPE_NAMES.items() if each in given]


def type_words() -> list[Term]:
    return [Term(each.value, name) for each, name in TYPE_NAMES.items()]


def property_words(type: EntityType | None) -> list[Term]:
    """Return the properties of a type; None: of all types."""
    return [*map(_word, properties_of(type)), *(word for word, _ in OF_EVERY_THING.values())]


def property_word(id: str) -> Term | None:
    if id in OF_EVERY_THING:
        return OF_EVERY_THING[id][0]
    found = catalogue().get(id)
    return None if found is None else _word(found)


def values_of(thing: Thing, property: str) -> Sequence[Any]:
    if property in OF_EVERY_THING:
        return OF_EVERY_THING[property][1](thing)
    return thing.properties.get(property, ())


def beginning_with(prefix: str, words: Iterable[Term]) -> list[Term]:
    """Return the terms whose id, or a word of whose name, begins with a text."""
    looked_for = prefix.strip().casefold()

    def begins(word: Term) -> bool:
        name = word.name.casefold()
        return word.id.startswith(looked_for) or name.startswith(looked_for) or f" {looked_for}" in name

    return [word for word in words if begins(word)]


def _word(property: Property) -> Term:
    also = f", in Wikidata {property.wikidata}" if property.wikidata else ""
    return Term(property.key, property.label, f"{property.kind}{also}")


def _some(text: str | None) -> Sequence[str]:
    return (text,) if text else ()
