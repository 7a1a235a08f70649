"""Names, so that two of them can be compared, whoever wrote them and with which keyboard."""

import re
import unicodedata

_LETTERS = {
    "ø": "o", "đ": "d", "ð": "d", "ł": "l", "ħ": "h", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th", "ŋ": "n",
    "ك": "ک", "ي": "ی", "ى": "ی", "ة": "ه", "ـ": "",
}  # fmt: skip
"""Letters that Unicode does not take apart, though they are written in two ways."""
_APOSTROPHES = re.compile(r"(?<=\w)['’‘ʼʻ′`´＇](?=\w)")
_SIGNS = ((re.compile(r"(?<=[\w+])\+"), " plus "), (re.compile(r"(?<=\w)[#♯]"), " sharp "))
"""Signs that are a part of the name when a word ends with them: Disney+ is not Disney."""


def folded(name: str) -> str:
    """In small letters, without accents, with one space where others write spaces, hyphens or dots.

    A name that is all punctuation stays as it is. Letters of every script stay; of marks, those go that readers leave
    out: accents, Hebrew points, Arabic vowels, but no vowels of Thai or Hindi.
    """
    text = _APOSTROPHES.sub("", unicodedata.normalize("NFKC", name))
    for sign, word in _SIGNS:
        text = sign.sub(word, text)
    parts = unicodedata.normalize("NFKD", text.casefold()).translate(_FOLDED)
    result = " ".join(unicodedata.normalize("NFC", parts).split())
    return result or " ".join(text.casefold().split())


def words(name: str) -> tuple[str, ...]:
    """Of a name without spaces, as in Chinese, one."""
    return tuple(folded(name).split())


def _is_accent(letter: str) -> bool:
    """Marks of the classes between are vowels, or change the letter: of kana, Devanagari, Thai."""
    mark = unicodedata.combining(letter)
    return mark == 1 or 10 <= mark <= 36 or mark >= 200


def _fold(letter: str) -> str:
    if _is_accent(letter):
        return ""
    match unicodedata.category(letter)[0]:
        case "L" | "N" | "M":
            return _LETTERS.get(letter, letter)
        case "C" if not letter.isspace():
            return ""  # joiners, soft hyphens: nothing that is seen
    return " "


class _Folded(dict[int, str]):
    """By letter, as `str.translate` asks for it. The alphabets are remembered, signs of Chinese are not: too many."""

    def __missing__(self, code: int) -> str:
        letter = _fold(chr(code))
        if code < 0x3000:
            self[code] = letter
        return letter


_FOLDED = _Folded()
