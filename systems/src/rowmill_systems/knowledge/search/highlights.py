"""Mark the words of a query in a passage."""

from collections.abc import Collection, Iterator
from functools import lru_cache

from rowmill_systems.knowledge.search.terms import PART, RUN, terms_of

Place = tuple[int, int]
"""From the first character, up to but not including the last."""


def highlights(text: str, terms: Collection[str]) -> tuple[Place, ...]:
    """Return where the terms stand in a text, in order, without overlaps."""
    merged: list[Place] = []
    for start, end in _places(text, frozenset(terms)):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)


def _places(text: str, terms: frozenset[str]) -> Iterator[Place]:
    for run in RUN.finditer(text):
        start, found = run.start(), run[0]
        if run["spaceless"]:
            yield from ((start + n, start + n + 2) for n in range(len(found) - 1) if _has(found[n : n + 2], terms))
            if len(found) == 1 and _has(found, terms):
                yield run.span()
            continue
        parts = [part for part in PART.finditer(found) if _has(part[0], terms)]
        whole = terms.intersection(_terms(found)).difference(*(_terms(part[0]) for part in parts))
        if whole:
            yield run.span()
        else:
            yield from ((start + part.start(), start + part.end()) for part in parts)


def _has(word: str, terms: frozenset[str]) -> bool:
    return next(iter(_terms(word)), None) in terms


@lru_cache(20_000)
def _terms(word: str) -> tuple[str, ...]:
    return tuple(terms_of(word))
