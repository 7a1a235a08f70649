"""How much of what stands around a name speaks for a thing: words that are in both, the rare ones first."""

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
"""Of a text; a page says who is meant in its first lines or not at all."""
ONE_WORD = 0.5
"""What one rare word in common says; each further one says as much of what is left."""
SAME_STEM = 0.5
STEM = 5
_POSSESSIVE = re.compile(r"['’]s\b")


@dataclass(frozen=True, slots=True)
class Around:
    """Words that say who is meant, without the name itself: every candidate has that."""

    text: frozenset[str]
    """Of the context. It says something too if a candidate has none of them."""
    known: frozenset[str]
    """Of local facts. Those that a candidate lacks say nothing: columns of a table can be about anything."""


def words_of_mention(mention: Mention) -> Around:
    known = (text for value in mention.known.values() for text in texts_in(value))
    name = telling(mention.name)
    return Around(telling(mention.context) - name, telling(" ".join(known)) - name)


def words_of_candidate(candidate: Candidate) -> frozenset[str]:
    values = (text for found in candidate.facts.values() for value in found for text in texts_in(value))
    names = " ".join((candidate.name, *candidate.aliases[:100]))
    return telling(f"{candidate.description[:MOST_LETTERS]} {names} {' '.join(values)}")


def rarity(vocabularies: Iterable[frozenset[str]]) -> Mapping[str, float]:
    """What each word is worth: 1 if one candidate alone has it, next to nothing if all have."""
    each = list(vocabularies)
    counts = Counter(word for vocabulary in each for word in vocabulary)
    return {word: 1 - (count - 1) / len(each) for word, count in counts.items()}


def in_common(around: frozenset[str], vocabulary: frozenset[str], worth: Mapping[str, float]) -> float:
    """From 0 to 1."""
    same = around & vocabulary
    stems = {word[:STEM]: word for word in sorted(vocabulary - same) if len(word) >= STEM}
    related = {stems[word[:STEM]] for word in around - same if len(word) >= STEM and word[:STEM] in stems}
    told = math.fsum([worth.get(word, 1.0) for word in same] + [SAME_STEM * worth.get(word, 1.0) for word in related])
    return 1 - math.pow(1 - ONE_WORD, told)


def texts_in(value: Any) -> Iterator[str]:
    """Whatever of a fact's value can be read: the label of a thing, not its id; the year of a date."""
    match value:
        case str():
            yield value[:MOST_LETTERS]
        case {"label": str(label)}:
            yield label
        case list() | tuple():
            for each in value[:100]:
                yield from texts_in(each)


def telling(text: str) -> frozenset[str]:
    """Its words, without those that stand in any text; one for all that say the same."""
    plain = folded(_POSSESSIVE.sub("", text[: 4 * MOST_LETTERS]))
    found = (part for word in plain.split() for part in _parts(word))
    return frozenset(_same_words().get(part, part) for part in found if part not in _stop_words())


def _parts(word: str) -> Iterator[str]:
    """Words of Latin letters as they are; of scripts without spaces, each two signs."""
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
