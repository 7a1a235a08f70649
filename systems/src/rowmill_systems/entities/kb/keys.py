"""Keys by which names are looked up: the same for all spellings of a name."""

import re
from collections.abc import Iterable, Sequence

from rowmill_systems.parts.names.folding import folded

LONGEST = 200
"""Characters of a name that are used. A longer text is not a name."""

_ADDITION = re.compile(r"[,(\[（，、]")
_FILLERS = frozenset({"the", "and", "of"})
_LEGAL_FORMS = frozenset({
    "inc", "incorporated", "corp", "corporation", "co", "company", "ltd", "limited", "plc", "llc", "llp", "lp",
    "gmbh", "ag", "kg", "kgaa", "ohg", "mbh", "ug", "ev", "se", "sa", "sas", "sarl", "spa", "srl", "nv", "bv", "ab",
    "as", "asa", "oy", "oyj", "aps", "kk", "pty", "pte", "sl", "slu", "bhd", "tbk", "jsc", "pjsc", "ooo", "oao",
    "pao", "zao",
})  # fmt: skip
_PARTICLES = frozenset({
    "van", "von", "vom", "zu", "der", "den", "de", "da", "di", "do", "dos", "del", "della", "du", "la", "le", "of",
    "bin", "ibn", "al", "el",
})  # fmt: skip


def cleaned(name: str) -> str:
    """Return the folded name, cut, and without lone surrogates."""
    return folded(name[:LONGEST].encode("utf-8", "ignore").decode().replace("\0", " "))


def key(name: str) -> str:
    """Return the key of a folded name: the same for `the boeing co` and `boeing`, for `tolkien j r r` and `jrr
    tolkien`."""
    parts = name.split()
    kept = [word for word in joined(parts) if word not in _FILLERS]
    while len(kept) > 1 and kept[-1] in _LEGAL_FORMS:
        kept.pop()
    return " ".join(sorted(kept or parts))


def initials(name: str) -> set[str]:
    """Return keys for the abbreviations of a person's folded name: a einstein, j r r tolkien, l van beethoven."""
    parts = name.split()
    given = [word for word in parts[:-1] if word not in _PARTICLES]
    if not given or len(parts[-1]) < 2:
        return set()
    particles = [word for word in parts[:-1] if word in _PARTICLES]
    letters = "".join(word[0] for word in given)
    return {
        key(" ".join((first, *between, parts[-1]))) for first in (letters, letters[0]) for between in ((), particles)
    }


def grams(text: str) -> list[str]:
    """Return the trigrams of each word, with its ends marked by a space.

    A typing mistake leaves most of them intact.
    """
    padded = (f" {word} " for word in text.split())
    return list(dict.fromkeys(word[at : at + 3] for word in padded for at in range(len(word) - 2)))


def without_addition(name: str) -> str:
    """Return the folded part before a comma or a bracket, which say which one is meant: Paris, France."""
    before, *added = _ADDITION.split(name[:LONGEST], maxsplit=1)
    return cleaned(before) if added else ""


def joined(parts: Iterable[str]) -> Sequence[str]:
    """Join single letters that follow each other: `u s a` becomes `usa`."""
    result: list[str] = []
    run = False
    for part in parts:
        single = len(part) == 1 and part.isascii() and part.isalpha()
        if single and run:
            result[-1] += part
        else:
            result.append(part)
        run = single
    return result
