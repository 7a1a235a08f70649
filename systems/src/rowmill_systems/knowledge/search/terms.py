"""Split texts into the terms that full text finds them by.

Both databases index these terms as they are, so that a query finds the same passages on both. Case, accents and width
make no difference. Words that are put together are found whole and in parts: ISO-9001 is `iso`, `9001` and `iso9001`.
Scripts without spaces are split into pairs of characters.
"""

import re
import unicodedata
from collections.abc import Iterator

from rowmill_systems.knowledge.search.stemming import stem
from rowmill_systems.parts.names.folding import is_accent

LONGEST = 40
"""Characters of a term. What is longer is cut: it is no word."""
MOST_PARTS = 6
"""A word of more parts is a path or an address: it is found by its parts alone."""

_SPACELESS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"  # noqa: E501
"""Thai, Lao, Burmese, Khmer, Japanese, Chinese; and Korean, whose endings hide a word that is looked for whole."""
_INDIC = "\u0900-\u0963\u0966-\u0dff\u0f00\u0f18-\u0fbc"
"""Vowel signs are no word characters for `re`."""
_LETTER = rf"(?:[^\W_{_SPACELESS}]|[{_INDIC}])"
RUN = re.compile(
    rf"(?P<spaceless>[{_SPACELESS}]+)|(?P<word>{_LETTER}+(?:[-_./:,@&'\u2019\u2010-\u2015]{_LETTER}+)*[+#]{{0,2}})"
)
PART = re.compile(rf"[0-9]+|(?:(?![0-9]){_LETTER})+")
_APOSTROPHES = re.compile(r"['\u2019]")
_LETTERS = {"ø": "o", "đ": "d", "ð": "d", "ł": "l", "ħ": "h", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th", "ŋ": "n"}


def terms_of(text: str) -> Iterator[str]:
    """Yield the terms of a text in their order. A term that stands twice comes twice."""
    for run in RUN.finditer(folded_text(text)):
        if run["word"]:
            yield from _word_terms(run["word"])
        else:
            yield from _pairs(run["spaceless"])


def folded_text(text: str) -> str:
    """Return the text in lower case, without accents and joiners, with the digits of all scripts as 0 to 9."""
    if text.isascii():
        return text.lower()
    parts = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold()).translate(_FOLDED)
    return unicodedata.normalize("NFC", parts)


def _word_terms(word: str) -> Iterator[str]:
    if word[-1] in "+#":  # C++, C#
        yield word[-LONGEST:]
        word = word.rstrip("+#")
    if _APOSTROPHES.search(word):  # l'avion, company's
        halves = _APOSTROPHES.split(word)
        for half in halves:
            if len(half) > 1 or len(halves) > 2:
                yield from _word_terms(half)
        return
    parts = PART.findall(word)
    for part in parts:
        yield stem(part[:LONGEST])
    if 1 < len(parts) <= MOST_PARTS:
        yield "".join(parts)[:LONGEST]


def _pairs(run: str) -> Iterator[str]:
    """Yield the pairs of neighbours, and the last character, so that each character begins a term."""
    for place in range(len(run)):
        yield run[place : place + 2]


def _fold(letter: str) -> str:
    if is_accent(letter):
        return ""
    match unicodedata.category(letter):
        case "Nd":
            return str(unicodedata.digit(letter))
        case "Cf":
            return ""  # joiners, soft hyphens: nothing that is seen
    return _LETTERS.get(letter, letter)


class _FoldTable(dict[int, str]):
    """A table for `str.translate`, filled on demand. Alphabets are remembered; Chinese characters are too many."""

    def __missing__(self, code: int) -> str:
        letter = _fold(chr(code))
        if code < 0x3000:
            self[code] = letter
        return letter


_FOLDED = _FoldTable()
