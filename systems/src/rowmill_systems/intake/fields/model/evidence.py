"""Find quotes of a model on their page. What is kept is the text of the page, not that of the model."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from rowmill_systems.intake.analysis import Evidence
from rowmill_systems.parts.documents.document import Box, Page

LONGEST_QUOTE = 1000
IDEOGRAPHS = "\u2e80"
"""From this character on, words stand without spaces."""
JOINTS = ".,'’"


@dataclass(frozen=True, slots=True)
class Found:
    evidence: Evidence
    exact: bool
    """Sign by sign; otherwise spaces and capitals differ."""


class Places:
    """A page, to find quotes on."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.text = page.text

    @cached_property
    def _folded(self) -> tuple[str, list[int]]:
        """The text in lower case with single spaces, and the position of each of its characters in the original."""
        return fold(self.text)

    @cached_property
    def letters(self) -> str:
        return letters_of(self.text)

    def find(self, quote: str) -> Found | None:
        quote = quote.strip()
        if not quote or len(quote) > LONGEST_QUOTE:
            return None
        for start in starts_of(quote, self.text):
            if stands_alone(self.text, start, start + len(quote)):
                return Found(self._evidence(start, start + len(quote)), True)
        wanted, (text, places) = fold(quote)[0].strip(), self._folded
        for start in starts_of(wanted, text):
            first, last = places[start], places[start + len(wanted) - 1] + 1
            if stands_alone(self.text, first, last):
                return Found(self._evidence(first, last), False)
        return None

    def _evidence(self, start: int, end: int) -> Evidence:
        return Evidence(self.page.number, self.text[start:end], tuple(self._boxes(start, end)))

    @cached_property
    def _words(self) -> tuple[list[int], list[int], list[Box]]:
        """The start, the end and the box of every word of the page, in order, as three lists."""
        begins: list[int] = []
        ends: list[int] = []
        boxes: list[Box] = []
        line_start = 0
        for line in self.page.lines:
            place = 0
            for word in line.words:
                at = line.text.find(word.text, place)
                if at >= 0:
                    place = at + len(word.text)
                    begins.append(line_start + at)
                    ends.append(line_start + place)
                    boxes.append(word.box)
            line_start += len(line.text) + 1
        return begins, ends, boxes

    def _boxes(self, start: int, end: int) -> list[Box]:
        """Return the boxes of the words that overlap text[start:end]."""
        begins, ends, boxes = self._words
        return boxes[bisect_right(ends, start) : bisect_left(begins, end)]


def fold(text: str) -> tuple[str, list[int]]:
    signs: list[str] = []
    places: list[int] = []
    for place, sign in enumerate(text):
        folded = sign.casefold() if not sign.isspace() else "" if signs and signs[-1] == " " else " "
        signs.extend(folded)
        places.extend([place] * len(folded))
    return "".join(signs), places


def letters_of(text: str) -> str:
    """Return letters and digits in lower case, for values that may be written with any characters in between."""
    return "".join(sign for sign in text.casefold() if sign.isalnum())


def starts_of(wanted: str, text: str) -> Iterator[int]:
    start = text.find(wanted) if wanted else -1
    while start >= 0:
        yield start
        start = text.find(wanted, start + 1)


def stands_alone(text: str, start: int, end: int) -> bool:
    """Tell whether a match is not a part of a longer word or number: `190.00` is not in `1,190.00`."""
    before, after = text[max(start - 2, 0) : start][::-1], text[end : end + 2]
    return not runs_on(before, text[start]) and not runs_on(after, text[end - 1])


def runs_on(beyond: str, edge: str) -> bool:
    """Return whether a word or number continues beyond its edge."""
    if not beyond or not edge.isalnum() or edge >= IDEOGRAPHS:
        return False
    if beyond[0].isalnum():
        return beyond[0] < IDEOGRAPHS
    return edge.isdigit() and beyond[0] in JOINTS and beyond[1:2].isdigit()
