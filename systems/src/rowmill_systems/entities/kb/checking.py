"""Check one entry of a file: return a thing, or all that is wrong with it.

Properties that are not in the catalogue, or that things of this type can't have, are errors: they would never be shown,
and would seem lost.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rowmill_systems.entities.kb.values import SHAPES, fits, is_number, is_text
from rowmill_systems.entities.properties.catalogue import catalogue
from rowmill_systems.parts.names.types import EntityType

KNOWN = ("id", "name", "types", "aliases", "description", "prominence", "properties", "wikidata_id", "dbpedia_uri")
LONGEST_NAME = 500
MOST_ALIASES = 1000
_TYPES = frozenset(map(str, EntityType))
_WIKIDATA = re.compile(r"Q[1-9]\d{0,18}")
_DBPEDIA = re.compile(r"https?://([a-z-]+\.)?dbpedia\.org/resource/\S+")


@dataclass(frozen=True, slots=True)
class Wrong:
    problems: tuple[str, ...]


def checked(entry: Mapping[str, Any]) -> dict[str, Any] | Wrong:
    given = {key: value for key, value in entry.items() if value is not None}
    types = _listed(given.get("types", []))
    properties = given.get("properties", {})
    problems = [
        *_of_the_entry(given),
        *_of_names(given, types),
        *_of_ids(given),
        *(_of_properties(properties, types) if isinstance(properties, dict) else ("properties must be an object",)),
    ]
    return Wrong(tuple(problems)) if problems else filled(given)


def filled(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry with all keys of a thing, and lists wherever several values are allowed."""
    return {
        "id": given["id"],
        "name": given["name"].strip(),
        "types": _listed(given.get("types", [])),
        "aliases": list(dict.fromkeys(alias.strip() for alias in given.get("aliases", []))),
        "description": given.get("description", ""),
        "prominence": float(given.get("prominence", 0)),
        "properties": {
            key: _listed(value) for key, value in given.get("properties", {}).items() if value not in (None, [])
        },
        "wikidata_id": given.get("wikidata_id"),
        "dbpedia_uri": given.get("dbpedia_uri"),
    }


def _of_the_entry(given: Mapping[str, Any]) -> Iterator[str]:
    if unknown := sorted(set(given) - set(KNOWN)):
        yield f"unknown {_some(unknown)}; known are {', '.join(KNOWN)}"
    prominence = given.get("prominence", 0)
    if not is_number(prominence) or not 0 <= prominence <= 1:
        yield "prominence must be a number from 0 to 1"
    description = given.get("description", "")
    if description != "" and not is_text(description):
        yield "description must be a text"


def _of_names(given: Mapping[str, Any], types: list[Any]) -> Iterator[str]:
    for key in ("id", "name"):
        if not is_text(given.get(key)) or len(given[key]) > LONGEST_NAME:
            yield f"{key} must be a text of at most {LONGEST_NAME} signs"
    aliases = given.get("aliases", [])
    if not isinstance(aliases, list) or not all(is_text(alias) and len(alias) <= LONGEST_NAME for alias in aliases):
        yield f"aliases must be a list of texts of at most {LONGEST_NAME} signs"
    elif len(aliases) > MOST_ALIASES:
        yield f"there may be {MOST_ALIASES} aliases at the most"
    if any(not isinstance(each, str) or each not in _TYPES for each in types):
        yield f"types must be of {', '.join(EntityType)}"


def _of_ids(given: Mapping[str, Any]) -> Iterator[str]:
    for key, form, example in (
        ("wikidata_id", _WIKIDATA, "Q7259"),
        ("dbpedia_uri", _DBPEDIA, "http://dbpedia.org/resource/Ada_Lovelace"),
    ):
        if key in given and (not is_text(given[key]) or not form.fullmatch(given[key])):
            yield f"{key} must look like {example}"


def _of_properties(properties: Mapping[str, Any], types: list[Any]) -> Iterator[str]:
    if unknown := sorted(set(properties) - set(catalogue())):
        yield f"unknown properties: {_some(unknown)}; take the catalogue's names, or leave them out"
    for key, given in properties.items():
        if (property := catalogue().get(key)) is None or given is None:
            continue
        values = _listed(given)
        if property.types and types and not property.types & {each for each in types if isinstance(each, str)}:
            yield f"{key} is of {' or '.join(sorted(property.types))} alone"
        if len(values) > 1 and not property.many:
            yield f"{key} can have one value"
        if not all(fits(value, property.kind) for value in values):
            yield f"{key} must be {SHAPES[property.kind]}"


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _some(names: list[str]) -> str:
    """List keys for a message, shortened and without control characters."""
    shown = ", ".join(repr(name[:40])[1:-1] for name in names[:5])
    return f"{shown} and {len(names) - 5} more" if len(names) > 5 else shown
