"""Recognise headings, and keep the path of those that a text stands under."""

import re
from statistics import median

from rowmill_systems.parts.documents.document import Line

LONGEST = 120
"""Characters of a heading."""
LONGEST_PATH = 300
LARGER = 1.2
"""How many times the usual height of words headings have at least, where a format knows heights."""
MUCH_LARGER = 1.6
PATH_SIGN = " > "

_MARKED = re.compile(r"(#{1,6})\s+(\S.*)")
_NUMBERED = re.compile(r"(\d{1,3}(?:\.\d{1,3}){0,4})\.?\s+[^\W\d_]")
_NAMED = re.compile(
    r"(?:chapter|section|part|appendix|annex|article|kapitel|abschnitt|anhang|chapitre|annexe|capítulo|capitolo)"
    r"\s+(?:\d+|[ivxlc]+|[a-z])\b(?!\w)",
    re.IGNORECASE,
)
_CHINESE = re.compile(r"第[一二三四五六七八九十百零〇\d]+([章篇部编節节条])")
_ENDED = re.compile(r"[.!?;,。！？；，]$")


def usual_height(lines: tuple[Line, ...]) -> float:
    """Return the usual height of the words of a page; 0 if its format knows no places."""
    heights = [word.box.bottom - word.box.top for line in lines for word in line.words]
    return median(heights) if heights else 0.0


def heading_of(line: Line, before: str, after: str, usual: float) -> tuple[int, str] | None:
    """Return the level and the words of a heading; None if the line is none. `before` and `after` are its neighbours:
    a numbered line next to another one belongs to a list."""
    text = line.text.strip()
    if marked := _MARKED.fullmatch(text):
        return len(marked[1]), marked[2].rstrip("# ")
    if not text or len(text) > LONGEST or "\t" in text or _ENDED.search(text):
        return None
    if numbered := _NUMBERED.match(text):
        if "." in numbered[1] or not (_NUMBERED.match(before.strip()) or _NUMBERED.match(after.strip())):
            return numbered[1].count(".") + 1, text
        return None
    if _NAMED.match(text):
        return 1, text
    if chinese := _CHINESE.match(text):
        return (1 if chinese[1] in "章篇部编" else 2), text
    return _by_look(line, text, after, usual)


def _by_look(line: Line, text: str, after: str, usual: float) -> tuple[int, str] | None:
    if line.words and usual > 0 and any(letter.isalpha() for letter in text):
        height = median(word.box.bottom - word.box.top for word in line.words)
        if height >= LARGER * usual:
            return (1 if height >= MUCH_LARGER * usual else 2), text
    if text.isupper() and after and not after.isupper() and len(text.split()) <= 10 and len(text) > 3:
        return 2, text
    return None


class HeadingPath:
    """The headings that the present place stands under. Goes on from page to page."""

    def __init__(self) -> None:
        self._open: list[tuple[int, str]] = []

    def enter(self, level: int, words: str) -> None:
        """Close the headings of this level and below it, and open this one."""
        while self._open and self._open[-1][0] >= level:
            self._open.pop()
        self._open.append((level, words))

    def __str__(self) -> str:
        return PATH_SIGN.join(words for _, words in self._open)[-LONGEST_PATH:]
