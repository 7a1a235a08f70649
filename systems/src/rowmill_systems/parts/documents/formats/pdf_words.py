"""Find the words of a PDF page and their places on the upright page."""

import ctypes
import math
import unicodedata
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pypdfium2  # type: ignore[import-untyped]
import pypdfium2.raw as pdfium  # type: ignore[import-untyped]

from rowmill_systems.parts.documents.document import Box, Word
from rowmill_systems.parts.documents.layout import Spot
from rowmill_systems.parts.documents.limits import DocumentLimits

FINE = 1_000_000
"""Steps along a side of the page, in which pdfium returns places."""
LIGATURES = "ﬀﬁﬂﬃﬄﬅﬆ"
NEXT_LETTER = 0.25
"""A gap wider than this share of the height ends a word, even without a space. Most spaces are about this wide."""


@dataclass(frozen=True, slots=True)
class Letter:
    text: str
    left: float
    top: float
    right: float
    bottom: float
    base: float


class Place:
    """Converts coordinates of the file to points on the shown page: turned, from the top left corner."""

    def __init__(self, page: pypdfium2.PdfPage) -> None:
        self.width, self.height = (max(side, 1e-3) for side in page.get_size())
        self.turn = page.get_rotation() // 90
        self._x0, self._y0 = self._ask(page, 0, 0)
        (x_x, x_y), (y_x, y_y) = self._ask(page, 100, 0), self._ask(page, 0, 100)
        self._x_x, self._x_y = (x_x - self._x0) / 100, (x_y - self._y0) / 100
        self._y_x, self._y_y = (y_x - self._x0) / 100, (y_y - self._y0) / 100

    def _ask(self, page: pypdfium2.PdfPage, x: float, y: float) -> tuple[float, float]:
        at_x, at_y = ctypes.c_int(), ctypes.c_int()
        pdfium.FPDF_PageToDevice(page, 0, 0, FINE, FINE, 0, x, y, at_x, at_y)
        return at_x.value / FINE * self.width, at_y.value / FINE * self.height

    def point(self, x: float, y: float) -> tuple[float, float]:
        return self._x0 + x * self._x_x + y * self._y_x, self._y0 + x * self._x_y + y * self._y_y

    def box(self, left: float, top: float, right: float, bottom: float) -> Box:
        across, down = self.width, self.height
        return Box(_part(left / across), _part(top / down), _part(right / across), _part(bottom / down))


def _part(value: float) -> float:
    return round(min(max(value, 0.0), 1.0), 5)


def words_of(page: pypdfium2.PdfPage, limits: DocumentLimits) -> Iterator[list[Spot]]:
    """Yield the words for each direction of text on the page, the most frequent direction first.

    Words outside of the page are left out.
    """
    place, by_turn = Place(page), defaultdict[int, list[Spot]](list)
    with closing(page.get_textpage()) as text:
        limits.check("characters of a page", text.count_chars(), limits.characters)
        for turn, letters in _groups(text, place):
            spot = _spot(letters, turn, place)
            if spot.word.box.left < spot.word.box.right and spot.word.box.top < spot.word.box.bottom:
                by_turn[turn].append(spot)
    yield from sorted(by_turn.values(), key=len, reverse=True)


def _groups(text: pypdfium2.PdfTextPage, place: Place) -> Iterator[tuple[int, list[Letter]]]:
    """Yield the letters of each word, in the order of the file."""
    word: list[Letter] = []
    last = 0
    for turn, letter in _letters(text, place):
        if word and (letter is None or turn != last or not _continues(word[-1], letter)):
            yield last, word
            word = []
        if letter is not None:
            word.append(letter)
            last = turn
    if word:
        yield last, word


def _continues(one: Letter, other: Letter) -> bool:
    height = max(one.bottom - one.top, 1e-6)
    gap = other.left - one.right
    return -height < gap < NEXT_LETTER * height and abs(other.base - one.base) < 0.5 * height


def _letters(text: pypdfium2.PdfTextPage, place: Place) -> Iterator[tuple[int, Letter | None]]:
    """Yield each letter with its quarter turns clockwise; None where a word ends."""
    rect, x, y = pdfium.FS_RECTF(), ctypes.c_double(), ctypes.c_double()
    raw: Any = text.raw
    high = 0
    for index in range(text.count_chars()):
        code = pdfium.FPDFText_GetUnicode(raw, index)
        if 0xD800 <= code < 0xDC00:  # characters outside of the first plane come in two halves
            high = code
            continue
        if 0xDC00 <= code < 0xE000 and high:
            code = 0x10000 + ((high - 0xD800) << 10) + (code - 0xDC00)
        high = 0
        if code in (0x2, 0xFFFE):  # what pdfium makes of a hyphen at the end of a line
            code = 0x2D
        character = chr(code) if code < 0xD800 or 0xE000 <= code < 0x110000 else "\ufffd"
        if character.isspace() or code < 0x20:
            yield 0, None
            continue
        if not character.isprintable():  # soft hyphens, joiners, letters without a meaning
            continue
        if not pdfium.FPDFText_GetLooseCharBox(raw, index, rect) or not pdfium.FPDFText_GetCharOrigin(raw, index, x, y):
            continue
        turn = (round(pdfium.FPDFText_GetCharAngle(raw, index) / (math.pi / 2)) + place.turn) % 4
        if character in LIGATURES:
            character = unicodedata.normalize("NFKC", character)
        yield turn, _letter(character, rect, place.point(x.value, y.value), turn, place)


def _letter(character: str, rect: Any, origin: tuple[float, float], turn: int, place: Place) -> Letter:
    one, other = place.point(rect.left, rect.top), place.point(rect.right, rect.bottom)
    corners = [_turned(*point, turn) for point in (one, other)]
    (left, right), (top, bottom) = (sorted(values) for values in zip(*corners, strict=True))
    return Letter(character, left, top, right, bottom, _turned(*origin, turn)[1])


def _turned(x: float, y: float, turn: int) -> tuple[float, float]:
    """Return a point as it lies when the page is turned until this text is upright."""
    return ((x, y), (y, -x), (-x, -y), (-y, x))[turn]


def _spot(letters: list[Letter], turn: int, place: Place) -> Spot:
    left, right = min(one.left for one in letters), max(one.right for one in letters)
    top, bottom = min(one.top for one in letters), max(one.bottom for one in letters)
    back = [_turned(*point, -turn % 4) for point in ((left, top), (right, bottom))]
    (x1, x2), (y1, y2) = (sorted(values) for values in zip(*back, strict=True))
    word = Word("".join(one.text for one in letters), place.box(x1, y1, x2, y2))
    return Spot(word, left, top, right, bottom, letters[0].base)
