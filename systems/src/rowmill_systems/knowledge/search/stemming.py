"""Cut the endings of English words, so that a query for `heated wings` finds `heating of the wing`.

What is left need not be a word: it only has to be the same for words of one meaning. Words of other languages in Latin
letters lose such endings, too, in texts and in queries alike.
"""

import re
from functools import lru_cache

SHORTEST = 4
"""Words of fewer characters stay as they are."""
_VOWEL = re.compile("[aeiouy]")
_DOUBLED = re.compile(r"([bdfgmnprt])\1$")
_ENDINGS = (
    "ational", "ations", "ation", "ative", "ional", "icall", "ical", "ment", "ness", "ant", "ent", "anc", "enc", "abl",
    "ibl", "ion", "ive", "iti", "ous", "ful", "ism", "ist", "ic", "al", "or", "er", "iz", "at",
)  # fmt: skip
"""The longest first."""


@lru_cache(50_000)
def stem(word: str) -> str:
    """Return the word without its ending. Numbers, and words of other scripts than Latin, stay as they are."""
    if len(word) < SHORTEST or not word.isascii() or not word.isalpha():
        return word
    return _without_endings(_without_flection(_singular(word)))


def _singular(word: str) -> str:
    if not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies"):
        return f"{word[:-3]}y" if len(word) > SHORTEST else word[:-1]
    return word[:-2] if word.endswith(("sses", "shes", "ches", "xes", "zes")) else word[:-1]


def _without_flection(word: str) -> str:
    """Cut -ing, -ed, -ly and a mute e, and write y as i."""
    for ending in ("ing", "ed"):
        rest = word.removesuffix(ending)
        if rest != word and len(rest) >= 3 and _VOWEL.search(rest):
            word = _DOUBLED.sub(r"\1", rest)
            break
    if word.endswith("ly") and len(word) > 5:
        word = word[:-2]
    if word.endswith("e") and len(word) > 3:
        word = word[:-1]
    return f"{word[:-1]}i" if word.endswith("y") and len(word) > 3 else word


def _without_endings(word: str) -> str:
    """Cut up to two endings that make one kind of word of another, as in `aero-dynam-ic-al`."""
    for _ in range(2):
        ending = next((each for each in _ENDINGS if word.endswith(each) and len(word) - len(each) >= SHORTEST), None)
        if ending is None or not _VOWEL.search(word[: -len(ending)]) or len(word) < 6:
            return word
        word = word[: -len(ending)]
    return word
