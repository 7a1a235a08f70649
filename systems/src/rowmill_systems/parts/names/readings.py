"""The ways to read a name: the weights of its words, and what distinguishes it from similar names."""

import re
import tomllib
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from itertools import takewhile
from typing import Any

from rowmill_systems.parts.names.folding import folded, words
from rowmill_systems.parts.names.types import EntityType

MOST_LETTERS, MOST_WORDS = 300, 20
"""Longer names are cut."""
INITIAL, MINOR, GENERIC, TITLE = 0.6, 0.2, 0.5, 0.1
"""Weights of words; all others weigh 1."""
_IN_BRACKETS = re.compile(r"\s*[(\[]([^()\[\]]*)[)\]]\s*$")
_ORDINAL = re.compile(r"(\d+)(?:st|nd|rd|th)")


@dataclass(frozen=True, slots=True)
class NameReading:
    words: tuple[str, ...]
    weights: tuple[float, ...]
    numbers: frozenset[str] = frozenset()
    """Apollo 11 is not Apollo 13, and Henry VIII not Henry VII."""
    generation: str = ""
    """j or s: junior and senior are two people."""
    aside: tuple[str, ...] = ()
    """What brackets or a comma add to say which one is meant: Paris, Texas."""
    squashed: str = ""
    """All words and numbers without spaces."""


@lru_cache(maxsize=20_000)
def readings(name: str, type: EntityType | None) -> tuple[NameReading, ...]:
    """Return the ways to read a name; at least one if it has a letter.

    After a comma may come a first name, a place, or the rest of the name.
    """
    name = unicodedata.normalize("NFKC", name[:MOST_LETTERS])
    base, aside = name, tuple[str, ...]()
    if (match := _IN_BRACKETS.search(name)) and match.start():
        base, aside = name[: match.start()], words(match[1])
    ways = [_reading(base, type, aside)]
    before, comma, behind = base.partition(",")
    if comma and "," not in behind and before.strip() and words(behind):
        if type in (None, EntityType.PERSON):
            ways.append(_reading(f"{behind} {before}", type, aside))
        if type is not EntityType.WORK:
            ways.append(_reading(before, type, aside + words(behind)))
    if type in (None, EntityType.PERSON) and (spread := _spread(base)) != base:
        ways.append(_reading(spread, type, aside))
    return tuple(dict.fromkeys(way for way in ways if way.words))


def implied_type(name: str) -> EntityType | None:
    """Return the type that a name itself tells: a GmbH is an organisation, a doctor is a person."""
    parts = words(name[:MOST_LETTERS])
    if len(parts) > 1 and parts[0] in _known("titles_of_people_alone"):
        return EntityType.PERSON
    if _legal_forms(parts) or _form_in_front(parts) or any(_glued(part) for part in parts):
        return EntityType.ORGANISATION
    return None


def state_of(word: str) -> str:
    """Return the state for the two letters after a city of the United States."""
    states: dict[str, str] = word_lists()["states"]
    return states.get(word, word)


def _reading(name: str, type: EntityType | None, aside: tuple[str, ...]) -> NameReading:
    parts = list(words(name)[:MOST_WORDS])
    if type in (None, EntityType.ORGANISATION):
        parts = [_without_form(part) for part in parts]
        parts = parts[: len(parts) - _legal_forms(parts)]
        parts = parts[_form_in_front(parts) :]
    generation = ""
    if type in (None, EntityType.PERSON) and len(parts) > 1 and parts[-1] in _known("generations"):
        generation = parts.pop()[0]
    parts = [_abbreviations().get(part, part) for part in parts[:-1]] + parts[-1:]
    romans, squashed = _romans(name), "".join(parts)
    numbers = {part: number for part in parts if (number := _number(part, romans))}
    kept = [part for part in parts if part not in numbers]
    if not any(_weight(part, 1, type) >= GENERIC for part in kept):  # Nineteen Eighty-Four: the numbers are the name
        kept, numbers = parts, {}
    weights = [_weight(part, place, type) for place, part in enumerate(kept)]
    if max(weights, default=0) < GENERIC:  # nothing but such words: then they are the name
        weights = [1.0] * len(kept)
    return NameReading(tuple(kept), tuple(weights), frozenset(numbers.values()), generation, aside, squashed)


def _weight(part: str, place: int, type: EntityType | None) -> float:
    initial = len(part) == 1 and part.isascii() and part.isalpha()
    if initial and type is EntityType.PERSON:
        return INITIAL  # also of A. Newton
    if part in _known("minor"):
        return MINOR
    if place == 0 and part in _known("titles" if type is EntityType.PERSON else "titles_of_people_alone"):
        return TITLE
    if initial:
        return INITIAL
    return GENERIC if part in _known("generic") else 1.0


def _number(part: str, romans: frozenset[str]) -> str:
    """Return a number as digits; empty if the word is none."""
    if ordinal := _ORDINAL.fullmatch(part):
        return ordinal[1]
    if any(sign.isdigit() for sign in part):
        return part.lstrip("0") or "0"
    if part in romans or (part in _spelled() and part not in _roman_words()):
        return _spelled()[part]
    return ""


def _romans(name: str) -> frozenset[str]:
    """Return the words that are Roman numerals: after another word, and in capitals unless the whole name is in lower
    case. A single letter is one only at the end of a name or before `of`: an initial has a dot or a name after it."""
    found, parts = set[str](), name.replace("-", " ").split()
    for place, part in enumerate(parts):
        bare = part.strip(",;:")
        capital = bare.isupper() or name.islower()
        if place == 0 or not capital or bare.lower() not in _roman_words():
            continue
        ends = place == len(parts) - 1 or part != bare or parts[place + 1].lower() in _known("minor")
        if len(bare) > 1 or ends:
            found.add(bare.lower())
    return frozenset(found)


def _spread(name: str) -> str:
    """Put spaces between joined initials: JRR Tolkien."""
    first, space, rest = name.partition(" ")
    is_initials = first.isalpha() and first.isupper() and 1 < len(first) < 4 and not name.isupper()
    return f"{' '.join(first)} {rest}" if space and is_initials else name


def _form_in_front(parts: Sequence[str]) -> int:
    return int(len(parts) > 1 and parts[0] in _known("legal_forms_in_front"))


def _legal_forms(parts: Sequence[str]) -> int:
    """Return how many words at the end are a legal form: three in `acme s p a`."""
    known, end = _known("legal_forms"), len(parts)
    while end > 1:
        letters = len(list(takewhile(lambda part: len(part) == 1, reversed(parts[:end]))))
        sizes = (size for size in range(min(letters, end - 1), 1, -1) if "".join(parts[end - size : end]) in known)
        size = next(sizes, 1 if parts[end - 1] in known else 0)
        if not size:
            break
        end -= size
    return len(parts) - end


def _glued(part: str) -> str:
    """Return the legal form that a word begins or ends with, in scripts without spaces."""
    forms = _known("legal_forms_without_spaces")
    return next((form for form in sorted(forms, key=len, reverse=True) if _has(part, form)), "")


def _has(part: str, form: str) -> bool:
    return part != form and (part.startswith(form) or part.endswith(form))


def _without_form(part: str) -> str:
    form = _glued(part)
    return part.removeprefix(form).removesuffix(form) if form else part


@cache
def word_lists() -> dict[str, dict[str, Any]]:
    return tomllib.loads((files(__package__) / "words.toml").read_text("utf-8"))


@cache
def _known(kind: str) -> frozenset[str]:
    return frozenset(map(folded, word_lists()["names"][kind]))


@cache
def _abbreviations() -> dict[str, str]:
    return {short: long for long, shorts in word_lists()["abbreviations"].items() for short in shorts}


@cache
def _spelled() -> dict[str, str]:
    return {word: number for number, spelled in word_lists()["numbers"].items() for word in spelled}


@cache
def _roman_words() -> frozenset[str]:
    return frozenset(word for word in _spelled() if set(word) <= set("ivx"))
