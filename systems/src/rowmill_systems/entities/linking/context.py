"""Score the words around a name: those that a candidate's description has too, rare words most."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from rowmill_systems.entities.things import Candidate, Mention
from rowmill_systems.parts.names.folding import folded
from rowmill_systems.parts.names.readings import word_lists

MOST_LETTERS = 4000
"""Characters of a text that are used: a page says who is meant in its first lines or not at all."""
ONE_WORD = 0.5
"""The score of one rare common word; each further one adds the same share of the rest."""
SAME_STEM = 0.5
STEM = 5
_POSSESSIVE = re.compile(r"['’]s\b")


@dataclass(frozen=True, slots=True)
class Around:
    """Words that say who is meant, without the name itself."""

    text: frozenset[str]
    """Of the context. A candidate that has none of them is less likely."""
    known: frozenset[str]
    """Of local facts. A candidate that has none of them is not less likely: a table may be about anything."""


def words_of_mention(mention: Mention) -> Around:
    known = (text for value in mention.known.values() for text in texts_in(value))
    name = telling(mention.name)
    return Around(telling(mention.context) - name, telling(" ".join(known)) - name)


def words_of_candidate(candidate: Candidate) -> frozenset[str]:
    values = (text for found in candidate.facts.values() for value in found for text in texts_in(value))
    names = " ".join((candidate.name, *candidate.aliases[:100]))
    return telling(f"{candidate.description[:MOST_LETTERS]} {names} {' '.join(values)}")


def rarity(vocabularies: Iterable[frozenset[str]]) -> Mapping[str, float]:
    """Return what each word is worth: 1 if one candidate has it, nearly nothing if all have it."""
    each = list(vocabularies)
    counts = Counter(word for vocabulary in each for word in vocabulary)
    return {word: 1 - (count - 1) / len(each) for word, count in counts.items()}


def in_common(around: frozenset[str], vocabulary: frozenset[str], worth: Mapping[str, float]) -> float:
    """Return the score of the common words, from 0 to 1."""
    same = around & vocabulary
    stems = {word[:STEM]: word for word in sorted(vocabulary - same) if len(word) >= STEM}
    related = {stems[word[:STEM]] for word in around - same if len(word) >= STEM and word[:STEM] in stems}
    told = math.fsum([worth.get(word, 1.0) for word in same] + [SAME_STEM * worth.get(word, 1.0) for word in related])
    return 1 - math.pow(1 - ONE_WORD, told)


def texts_in(value: Any) -> Iterator[str]:
    """Yield the readable parts of a fact's value: the label of a thing and not its id, the year of a date."""
    match value:
        case str():
            yield value[:MOST_LETTERS]
        case {"label": str(label)}:
            yield label
        case list() | tuple():
            for each in value[:100]:
                yield from texts_in(each)


def telling(text: str) -> frozenset[str]:
    """Return the words of a text, without stop words, and one form for words that mean the same."""
    plain = folded(_POSSESSIVE.sub("", text[: 4 * MOST_LETTERS]))
    found = (part for word in plain.split() for part in _parts(word))
    return frozenset(_same_words().get(part, part) for part in found if part not in _stop_words())


def _parts(word: str) -> Iterator[str]:
    """Yield words of Latin letters; in scripts without spaces, each pair of characters."""
    if len(word) > 2 and not word.isascii() and any("\u3040" <= sign <= "\u9fff" for sign in word):
        yield from (word[place : place + 2] for place in range(len(word) - 1))
    elif len(word) > 1 or not word.isascii():
        yield word


@cache
def _stop_words() -> frozenset[str]:
    return frozenset(map(folded, word_lists()["context"]["stop"]))


@cache
def _same_words() -> dict[str, str]:
    return {word: first for first, *others in word_lists()["context"]["same"] for word in others}
