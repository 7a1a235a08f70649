"""Normalise texts: without case, accents and confusions of OCR."""

import re
import unicodedata
from functools import lru_cache

TOKEN = re.compile(r"[^\W_]+")
CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
UMLAUT = re.compile(r"([aou])e(?=[a-z])")
# Signs that OCR takes for each other fall on one of them. A label is matched this way, a value never is.
ALIKE = str.maketrans({"0": "o", "1": "i", "l": "i", "|": "i", "!": "i", "5": "s", "8": "b", "q": "g", "j": "i"})
TO_DIGIT = str.maketrans("OoQDIl|iSsBZzG", "00001111558226")
NUMBERLIKE = re.compile(r"[0-9OoQDIl|iSsBZzG.,'’/:-]{3,}")


@lru_cache(maxsize=65536)
def plain(text: str) -> str:
    """Return the text in lower case without accents: `Numéro` and `NUMERO` are the same."""
    parts = unicodedata.normalize("NFKD", text)
    return "".join(sign for sign in parts if not unicodedata.combining(sign)).casefold()


@lru_cache(maxsize=65536)
def skeleton(text: str) -> str:
    """Return a form of a word that is the same for letters that OCR confuses, and for umlauts that are spelt out."""
    bare = plain(text)
    bare = UMLAUT.sub(r"\1", bare.replace("rn", "m").replace("vv", "w"))
    return "".join(TOKEN.findall(bare.translate(ALIKE)))


def mend_digits(text: str) -> str:
    """Replace letters that stand for digits, in words that are mostly digits: `1.19O,0l` becomes `1.190,01`. The length
    stays the same."""
    return NUMBERLIKE.sub(_mended, text)


def _mended(found: re.Match[str]) -> str:
    word = found.group()
    before = found.string[found.start() - 1] if found.start() else " "
    after = found.string[found.end()] if found.end() < len(found.string) else " "
    letters = sum(sign.isalpha() for sign in word)
    if not letters or before.isalnum() or after.isalnum() or letters >= sum(sign.isdigit() for sign in word):
        return word
    return word.translate(TO_DIGIT)
