"""How similar two folded names are, for the search."""

from rapidfuzz import fuzz

_SAME_WORD = 75
"""From this similarity on (of 100), two words may be one with a typing mistake."""
_A_PART = 0.9
"""Similarity of a name whose words are all in a longer one."""


def closeness(asked: str, name: str) -> float:
    """Return the similarity from 0 to 1, whatever the order of the words."""
    whole = fuzz.token_sort_ratio(asked, name) / 100
    return max(whole, _A_PART * _covered(asked.split(), name.split()))


def _covered(asked: list[str], name: list[str]) -> float:
    """Return how much of the query is in the name."""
    found = 0.0
    for word in asked:
        best = max((fuzz.ratio(word, other) for other in name), default=0.0)
        found += len(word) * (best if best >= _SAME_WORD else 0) / 100
    return found / max(sum(map(len, asked)), 1)
