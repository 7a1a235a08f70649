"""What names are looked up by: forms that are the same for everybody who means the same name."""

import re
from collections.abc import Iterable, Sequence

from rowmill_systems.parts.names.folding import folded

LONGEST = 200
"""Signs of a name that are looked at. Whatever is longer is no name."""

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
    """Folded, and of a length that does no harm. Half characters, which no database takes, are left out."""
    return folded(name[:LONGEST].encode("utf-8", "ignore").decode().replace("\0", " "))


def key(name: str) -> str:
    """Of a folded name. Of `the boeing co` and `boeing`, of `tolkien j r r` and `jrr tolkien` the same."""
    parts = name.split()
    kept = [word for word in joined(parts) if word not in _FILLERS]
    while len(kept) > 1 and kept[-1] in _LEGAL_FORMS:
        kept.pop()
    return " ".join(sorted(kept or parts))


def initials(name: str) -> set[str]:
    """Of a folded name, keys of the ways in which a person's is cut: a einstein, j r r tolkien, l van beethoven."""
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
    """Every three signs of each word, its ends marked by a space: what is left of a name with a typing mistake."""
    padded = (f" {word} " for word in text.split())
    return list(dict.fromkeys(word[at : at + 3] for word in padded for at in range(len(word) - 2)))


def without_addition(name: str) -> str:
    """Folded, what stands before a comma or a bracket: people say there which one they mean, as in Paris, France."""
    before, *added = _ADDITION.split(name[:LONGEST], maxsplit=1)
    return cleaned(before) if added else ""


def joined(parts: Iterable[str]) -> Sequence[str]:
    """Single letters that follow each other as one word: `u s a` as `usa`."""
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
