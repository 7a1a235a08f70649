"""What others call our types: extractors, Wikidata and DBpedia. The words are in types.toml."""

import re
import tomllib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from rowmill_systems.parts.names.folding import folded, words
from rowmill_systems.parts.names.types import EntityType

_PLACE_IN_A_NAME = re.compile(r"^[BIELSU]-", re.IGNORECASE)
"""B-PER begins a person's name: so write taggers of words."""
_OF_DBPEDIA = re.compile(r"(?:https?://dbpedia\.org/ontology/|dbo:|dbpedia:|dbpedia-owl:)?([\w-]+)", re.IGNORECASE)
_OF_WIKIDATA = re.compile(r"(?:https?://www\.wikidata\.org/(?:entity|wiki)/|wd:|wikidata:)?(Q\d+)", re.IGNORECASE)


def type_of(text: str | None) -> EntityType | None:
    """Of the word for a type, in whatever vocabulary; of several words, the last one counts: a software company is a
    company. None if it says nothing."""
    if not text:
        return None
    known, text = _words(), _PLACE_IN_A_NAME.sub("", text.strip())
    if (whole := folded(text)) in known:
        return known[whole]
    last = next(reversed(words(re.split(r"[/#:]", text)[-1])), "")
    return known.get(last) or known.get(last.removesuffix("s"))


def types_of_wikidata(ids: Iterable[str]) -> frozenset[EntityType]:
    """Of the classes that a thing is an instance of; empty if none of them says anything here."""
    found = (_OF_WIKIDATA.fullmatch(id.strip()) for id in ids)
    return _types("wikidata", (match[1].upper() for match in found if match))


def types_of_dbpedia(uris: Iterable[str]) -> frozenset[EntityType]:
    """Of classes of DBpedia's ontology, as URIs or as Spotlight writes them; classes of others say nothing."""
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
