"""How close two folded names are."""

from rapidfuzz import fuzz

_SAME_WORD = 75
"""From here on, of 100, two words can be one with a typing mistake."""
_A_PART = 0.9
"""Worth of a name of which all words are in a longer one."""


def closeness(asked: str, name: str) -> float:
    """From 0 to 1, whatever the order of the words."""
    whole = fuzz.token_sort_ratio(asked, name) / 100
    return max(whole, _A_PART * _covered(asked.split(), name.split()))


def _covered(asked: list[str], name: list[str]) -> float:
    """How much of what was asked for is in the name."""
    found = 0.0
    for word in asked:
        best = max((fuzz.ratio(word, other) for other in name), default=0.0)
        found += len(word) * (best if best >= _SAME_WORD else 0) / 100
    return found / max(sum(map(len, asked)), 1)
