"""Map types of extractors, Wikidata and DBpedia to ours, by types.toml."""

import re
import tomllib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from rowmill_systems.parts.names.folding import folded, words
from rowmill_systems.parts.names.types import EntityType

_PLACE_IN_A_NAME = re.compile(r"^[BIELSU]-", re.IGNORECASE)
"""Prefixes of taggers: B-PER begins a person's name."""
_OF_DBPEDIA = re.compile(r"(?:https?://dbpedia\.org/ontology/|dbo:|dbpedia:|dbpedia-owl:)?([\w-]+)", re.IGNORECASE)
_OF_WIKIDATA = re.compile(r"(?:https?://www\.wikidata\.org/(?:entity|wiki)/|wd:|wikidata:)?(Q\d+)", re.IGNORECASE)


def type_of(text: str | None) -> EntityType | None:
    """Return the type for a word of any vocabulary, or None.

    Of several words the last counts: a software company is a company.
    """
    if not text:
        return None
    known, text = _words(), _PLACE_IN_A_NAME.sub("", text.strip())
    if (whole := folded(text)) in known:
        return known[whole]
    last = next(reversed(words(re.split(r"[/#:]", text)[-1])), "")
    return known.get(last) or known.get(last.removesuffix("s"))


def types_of_wikidata(ids: Iterable[str]) -> frozenset[EntityType]:
    """Return the types for the classes that a thing is an instance of."""
    found = (_OF_WIKIDATA.fullmatch(id.strip()) for id in ids)
    return _types("wikidata", (match[1].upper() for match in found if match))


def types_of_dbpedia(uris: Iterable[str]) -> frozenset[EntityType]:
    """Return the types for classes of DBpedia's ontology, as URIs or as Spotlight writes them."""
    found = (_OF_DBPEDIA.fullmatch(uri.strip()) for uri in uris)
    return _types("dbpedia", (match[1] for match in found if match))


def _types(vocabulary: str, names: Iterable[str]) -> frozenset[EntityType]:
    wanted = set(names)
    return frozenset(type for type, known in _vocabulary(vocabulary).items() if wanted & known)


@cache
def _vocabulary(name: str) -> dict[EntityType, frozenset[str]]:
    given = tomllib.loads((files(__package__) / "types.toml").read_text("utf-8"))
    return {EntityType(type): frozenset(of[name]) for type, of in given.items()}


@cache
def _words() -> dict[str, EntityType]:
    return {folded(word): type for type, known in _vocabulary("words").items() for word in known}
