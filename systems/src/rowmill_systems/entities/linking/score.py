"""Score how likely a candidate is meant, and why.

An exact name leaves a doubt of one in four. Each thing that speaks for the candidate removes a share of that doubt: its
type, the words around the name, facts that agree, how well known it is. Each thing that speaks against it removes a
share of the whole score. The score is never higher than the similarity of the names.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from rowmill_systems.entities.linking.context import Around, in_common, telling, words_of_candidate, words_of_mention
from rowmill_systems.entities.linking.evidence import agreement
from rowmill_systems.entities.things import Candidate, Mention
from rowmill_systems.parts.names.readings import NameReading, implied_type, readings, state_of
from rowmill_systems.parts.names.similarity import acronym, same_company, similarity
from rowmill_systems.parts.names.types import EntityType

DOUBT = 0.25
"""The doubt when the name is the same and nothing else is known."""
SPEAKS_FOR = {"type": 0.35, "context": 0.6, "facts": 0.8, "prominence": 0.35}
"""The largest share of the doubt that each removes."""
SPEAKS_AGAINST = {"type": 0.5, "context": 0.5, "facts": 0.6}
"""The largest share of the score that each removes."""
ALIAS = 0.99
ASIDE_FITS, ASIDE_DOES_NOT_FIT = 0.98, 0.6
OFTEN_MIXED_UP = {
    frozenset({EntityType.ORGANISATION, EntityType.PLACE}),
    frozenset({EntityType.ORGANISATION, EntityType.WORK}),
}
"""Types that people confuse: universities are places too, and newspapers works."""
MIXED_UP, HALF = -0.15, -0.5
"""Scores of types that are often confused, and of a candidate that has none of our types."""
ENOUGH_WORDS = 2
"""A context and a description with so many words and none in common speak against a candidate."""
AT_LEAST = -0.05
"""That score for the best known candidates."""
MOST_ALIASES = 100


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a score: from 0 to 1 for a candidate, from -1 to 0 against it. The name is from 0 to 1."""

    name: float
    type: float = 0.0
    context: float = 0.0
    facts: float = 0.0
    prominence: float = 0.0

    @property
    def score(self) -> float:
        doubt, left = DOUBT, 1.0
        for part, share in SPEAKS_FOR.items():
            doubt *= 1 - share * max(0.0, getattr(self, part))
        for part, share in SPEAKS_AGAINST.items():
            left *= 1 + share * min(0.0, getattr(self, part))
        return self.name * (1 - doubt) * left

    @property
    def without_fame(self) -> "Parts":
        return replace(self, prominence=0.0, context=max(0.0, self.context))


def score(mention: Mention, candidate: Candidate) -> Parts:
    """Score a candidate by itself. `rank` scores it among others: words that all of them have are worth less there."""
    return parts(mention, words_of_mention(mention), candidate, words_of_candidate(candidate), {})


def parts(
    mention: Mention,
    around: Around,
    candidate: Candidate,
    vocabulary: frozenset[str],
    worth: Mapping[str, float],
) -> Parts:
    """Score a candidate, with the words of both sides, which are made once."""
    type = mention.type or implied_type(mention.name)
    return Parts(
        name=_name(mention, candidate, type, vocabulary),
        type=_type(type, candidate.types),
        context=_context(around, vocabulary, candidate, worth),
        facts=agreement(mention.known, candidate.facts),
        prominence=_prominence(candidate),
    )


def _name(mention: Mention, candidate: Candidate, type: EntityType | None, vocabulary: frozenset[str]) -> float:
    """Return the similarity of the most similar name. A mention without a type is read as of the candidate's type."""
    if type is None and len(candidate.types) == 1:
        (type,) = candidate.types
    ways = [(way, _aside(way, vocabulary)) for way in readings(mention.name, type)]
    best = 0.0
    for place, name in enumerate((candidate.name, *candidate.aliases[:MOST_ALIASES])):
        most = ALIAS if place else 1.0
        for other in readings(name, type):
            best = max(best, *(most * share * similarity(way, other, type) for way, share in ways), 0.0)
            best = max(best, acronym(mention.name, other))
        if type is EntityType.ORGANISATION:
            best = max(best, most * same_company(mention.name, name))
    return best


def _aside(way: NameReading, vocabulary: frozenset[str]) -> float:
    """Check what stands in brackets or after a comma: it must be true of the candidate."""
    if not way.aside:
        return 1.0
    aside = " ".join(way.aside)
    told = telling(state_of(aside)) or {"".join(way.aside)}
    fits = all(in_common(frozenset((word,)), vocabulary, {}) for word in told)
    return ASIDE_FITS if fits else ASIDE_DOES_NOT_FIT


def _type(type: EntityType | None, types: frozenset[EntityType]) -> float:
    if type is None or not types:
        return 0.0
    if type in types:
        return 1.0
    if type is EntityType.OTHER or any(frozenset((type, each)) in OFTEN_MIXED_UP for each in types):
        return MIXED_UP
    return HALF if EntityType.OTHER in types else -1.0


def _context(around: Around, vocabulary: frozenset[str], candidate: Candidate, worth: Mapping[str, float]) -> float:
    """Score the context.

    Nothing in common speaks against a candidate, the more the less known it is: people name the well known without
    explaining who they are.
    """
    shared = in_common(around.text | around.known, vocabulary, worth)
    could_have = len(around.text) >= ENOUGH_WORDS and len(vocabulary) >= ENOUGH_WORDS and candidate.description
    return shared if shared or not could_have else min(_prominence(candidate) - 1, AT_LEAST)


def _prominence(candidate: Candidate) -> float:
    return min(1.0, max(0.0, candidate.prominence))
