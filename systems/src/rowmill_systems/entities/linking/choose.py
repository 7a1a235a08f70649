"""Choose the candidate that is meant, or none. Never guesses."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from rowmill_systems.entities.linking.context import rarity, words_of_candidate, words_of_mention
from rowmill_systems.entities.linking.same import dbpedia_uri_of, may_be_the_same, things, wikidata_id_of
from rowmill_systems.entities.linking.score import Parts, parts
from rowmill_systems.entities.things import Candidate, Link, Mention, Offered

ANOTHER_SOURCE = 0.1
"""The share of the doubt that a second source with the same thing removes.

It is small, and the same for two and for five sources: they copy from each other.
"""
MOST_OFFERED = 8
"""Candidates that are stored for a person to choose from."""
MOST = 200
"""Candidates that are scored; sources return some ten each."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A candidate with its score; or several of different sources that are the same thing."""

    candidates: tuple[Candidate, ...]
    """The best first."""
    parts: Parts
    """The parts of the best one's score."""
    score: float


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen, among which candidates, or why nothing was."""

    link: Link | None
    candidates: tuple[Offered, ...] = ()
    """The likeliest first."""
    reason: str | None = None
    """Why there is no link, for people."""


def choose(
    mention: Mention, candidates: Sequence[Candidate], *, threshold: float, gap: float, order: Sequence[str] = ()
) -> Choice:
    """Return the thing that is meant, if it is likely enough and far enough ahead of the next one.

    The order of the candidates does not matter. `order` lists the sources, the most trusted first.
    """
    ranked = rank(mention, candidates, order=order)
    offered = tuple(_offered(scored, order) for scored in ranked[:MOST_OFFERED])
    reason = _why_not(ranked, threshold, gap)
    return Choice(None if reason else offered[0].link, offered, reason)


def decide(ranked: Sequence[Scored], *, threshold: float, gap: float) -> Scored | None:
    """Return the first one, unless it is too unlikely or another one is too close."""
    return None if _why_not(ranked, threshold, gap) else ranked[0]


def _why_not(ranked: Sequence[Scored], threshold: float, gap: float) -> str | None:
    """Return why none of them is chosen."""
    if not ranked:
        return "no source knows that name"
    best, *others = ranked
    if best.score < threshold:
        return f"{_shown(best)} is below the threshold of {threshold:.2f}"
    for other in others:
        if _lead(best, other) < gap and not may_be_the_same(best.candidates, other.candidates):
            return f"{_shown(best)} and {_shown(other)} are too close"
    return None


def _shown(scored: Scored) -> str:
    best = scored.candidates[0]
    return f"{best.name}{f', {best.description}' if best.description else ''} ({scored.score:.2f})"


def _offered(scored: Scored, order: Sequence[str]) -> Offered:
    best = scored.candidates[0]
    reasons = {name: round(value, 4) for name, value in asdict(scored.parts).items()}
    return Offered(_link(scored, order), best.description, tuple(sorted(best.types)), reasons)


def _lead(best: Scored, other: Scored) -> float:
    """Return by which share the first leaves less doubt than the second.

    By the scores alone, two likely ones would always be close. If the context does not mention the first, its fame does
    not count: words that we don't have say who is meant.
    """
    silent = best.parts.context < 0
    first, second = (each.parts.without_fame.score if silent else each.score for each in (best, other))
    return (first - second) / (1 - second) if second < 1 else 0.0


def rank(mention: Mention, candidates: Sequence[Candidate], *, order: Sequence[str] = ()) -> list[Scored]:
    """Return all things that may be meant, the likeliest first, each with the parts of its score."""
    given = sorted(candidates, key=lambda each: _place(each, order))[:MOST]
    around, offered = words_of_mention(mention), [_with_words(thing) for thing in things(given)]
    worth = rarity(frozenset().union(*(words for _, words in thing)) for thing in offered)
    ranked = [
        _scored([(parts(mention, around, each, words, worth), each) for each, words in thing], order)
        for thing in offered
    ]
    return sorted(ranked, key=lambda scored: (-scored.score, _place(scored.candidates[0], order)))


def _with_words(thing: Sequence[Candidate]) -> list[tuple[Candidate, frozenset[str]]]:
    return [(candidate, words_of_candidate(candidate)) for candidate in thing]


def _scored(found: list[tuple[Parts, Candidate]], order: Sequence[str]) -> Scored:
    found.sort(key=lambda each: (-each[0].score, _place(each[1], order)))
    best = found[0][0]
    several = len({candidate.source for _, candidate in found}) > 1
    doubt = (1 - best.score) * (1 - ANOTHER_SOURCE if several else 1)
    return Scored(tuple(candidate for _, candidate in found), best, 1 - doubt)


def _link(chosen: Scored, order: Sequence[str]) -> Link:
    best, sources = chosen.candidates[0], {each.source for each in chosen.candidates}
    others = {
        each.source: each.id for each in reversed(chosen.candidates) if each.source not in ("wikidata", "dbpedia")
    }
    return Link(
        confidence=chosen.score,
        source="+".join(sorted(sources, key=lambda source: _rank_of(source, order))),
        label=best.name,
        wikidata_id=next(filter(None, map(wikidata_id_of, chosen.candidates)), None),
        dbpedia_uri=next(filter(None, map(dbpedia_uri_of, chosen.candidates)), None),
        other_ids=dict(sorted(others.items())),
    )


def _rank_of(source: str, order: Sequence[str]) -> tuple[int, str]:
    return (order.index(source) if source in order else len(order), source)


def _place(candidate: Candidate, order: Sequence[str]) -> tuple[int | str, ...]:
    """Return the order of two that are equally likely."""
    ids = (candidate.id, candidate.wikidata_id or "", candidate.dbpedia_uri or "")
    return (*_rank_of(candidate.source, order), *ids, candidate.name, candidate.description)
