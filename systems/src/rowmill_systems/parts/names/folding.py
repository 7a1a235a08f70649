"""Normalise names for comparison."""

import re
import unicodedata

_LETTERS = {
    "ø": "o", "đ": "d", "ð": "d", "ł": "l", "ħ": "h", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th", "ŋ": "n",
    "ك": "ک", "ي": "ی", "ى": "ی", "ة": "ه", "ـ": "",
}  # fmt: skip
"""Letters that Unicode does not decompose, though people write them in two ways."""
_APOSTROPHES = re.compile(r"(?<=\w)['’‘ʼʻ′`´＇](?=\w)")
_SIGNS = ((re.compile(r"(?<=[\w+])\+"), " plus "), (re.compile(r"(?<=\w)[#♯]"), " sharp "))
"""Signs that belong to a name when a word ends with them: Disney+ is not Disney."""


def folded(name: str) -> str:
    """Return a name in lower case, without accents, with single spaces for spaces, hyphens and dots.

    Letters of every script stay. Marks that readers leave out go: accents, Hebrew points, Arabic vowels; vowels of Thai
    and Hindi stay. A name that is all punctuation stays as it is.
    """
    text = _APOSTROPHES.sub("", unicodedata.normalize("NFKC", name))
    for sign, word in _SIGNS:
        text = sign.sub(word, text)
    parts = unicodedata.normalize("NFKD", text.casefold()).translate(_FOLDED)
    result = " ".join(unicodedata.normalize("NFC", parts).split())
    return result or " ".join(text.casefold().split())


def words(name: str) -> tuple[str, ...]:
    """Return the words of a folded name. A name without spaces, as in Chinese, is one word."""
    return tuple(folded(name).split())


def is_accent(letter: str) -> bool:
    """Marks of the classes in between are vowels, or change the letter: in kana, Devanagari and Thai."""
    mark = unicodedata.combining(letter)
    return mark == 1 or 10 <= mark <= 36 or mark >= 200


def _fold(letter: str) -> str:
    if is_accent(letter):
        return ""
    match unicodedata.category(letter)[0]:
        case "L" | "N" | "M":
            return _LETTERS.get(letter, letter)
        case "C" if not letter.isspace():
            return ""  # joiners, soft hyphens: nothing that is seen
    return " "


class _Folded(dict[int, str]):
    """A table for `str.translate`, filled on demand. Alphabets are remembered; Chinese characters are too many."""

    def __missing__(self, code: int) -> str:
        letter = _fold(chr(code))
        if code < 0x3000:
            self[code] = letter
        return letter


_FOLDED = _Folded()
