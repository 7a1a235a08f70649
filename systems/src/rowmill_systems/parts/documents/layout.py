"""Arrange words with places into lines of text.

Words on one baseline are a row. A wide gap in a row is a tab, so that cells of a table stay apart. Rows are read from
top to bottom; only running text in columns is read column by column, since a table, or two addresses side by side,
belong together row by row.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median

from rowmill_systems.parts.documents.document import Line, Word

SAME_BASELINE = 0.6
"""As a share of the smaller height: superscripts belong to their row, the next row does not."""
WIDE_GAP = 1.0
"""As a share of the height: wider than the spaces of justified text, narrower than the gaps of most tables."""
COLUMN_ROWS = 5
COLUMN_WORDS = 4
"""Rows with so many words each, and so many rows on both sides, are running text."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A word and its place when it is upright. Any unit, the same in both directions."""

    word: Word
    left: float
    top: float
    right: float
    bottom: float
    base: float
    """The baseline, or the middle if no baseline is known."""

    @property
    def height(self) -> float:
        return max(self.bottom - self.top, 1e-6)


Run = list[Spot]
"""Words of one row without a wide gap between them."""


def lines_of(spots: Iterable[Spot]) -> tuple[Line, ...]:
    runs = [run for row in _rows(list(spots)) for run in _runs(row)]
    return tuple(_line(row) for block in _blocks(runs) for row in _rows([spot for run in block for spot in run]))


def _rows(spots: Sequence[Spot]) -> list[Run]:
    rows: list[Run] = []
    base = height = 0.0
    for spot in sorted(spots, key=lambda spot: spot.base):
        if not rows or spot.base - base > SAME_BASELINE * min(height, spot.height):
            rows.append([])
            base, height = spot.base, spot.height
        rows[-1].append(spot)
        number = len(rows[-1])
        base += (spot.base - base) / number
        height = max(height, spot.height)
    return [sorted(row, key=lambda spot: spot.left) for row in rows]


def _wide(one: Spot, other: Spot, height: float) -> bool:
    return other.left - one.right > WIDE_GAP * height


def _runs(row: Run) -> Iterable[Run]:
    height, run = median(spot.height for spot in row), row[:1]
    for one, other in pairwise(row):
        if _wide(one, other, height):
            yield run
            run = []
        run.append(other)
    yield run


def _line(row: Run) -> Line:
    height, text = median(spot.height for spot in row), row[0].word.text
    for one, other in pairwise(row):
        text += ("\t" if _wide(one, other, height) else " ") + other.word.text
    return Line(text, tuple(spot.word for spot in row))


def _blocks(runs: list[Run]) -> Iterable[list[Run]]:
    """Yield the runs in order; split where columns of running text stand side by side."""
    for edge in _edges(runs):
        bands = list(_bands(runs, edge))
        if len(bands) > 1:
            for band in bands:
                yield from _blocks(band)
            return
    yield runs


def _edges(runs: list[Run]) -> list[float]:
    """Return where columns may begin: left edges that many runs share, without the leftmost."""
    if len(runs) < 2 * COLUMN_ROWS:
        return []
    unit = median(run[0].height for run in runs)
    counted = Counter(round(run[0].left / unit) for run in runs)
    leftmost = min(counted)
    shared = [place for place, number in counted.most_common(4) if number >= COLUMN_ROWS and place > leftmost + 2]
    return [(place - 0.75) * unit for place in shared]


def _bands(runs: list[Run], edge: float) -> Iterable[list[Run]]:
    """Split the page at runs that cross the edge. Between them, the left column is read before the right one."""
    band: list[Run] = []
    for run in [*runs, None]:
        crossing = run is None or run[0].left < edge < run[-1].right
        if crossing and band:
            left = [one for one in band if one[0].left < edge]
            right = [one for one in band if one[0].left >= edge]
            yield from (left, right) if _beside(left, right) else (band,)
            band = []
        if run is not None:
            if crossing:
                yield [run]
            else:
                band.append(run)


def _beside(left: list[Run], right: list[Run]) -> bool:
    if min(len(left), len(right)) < COLUMN_ROWS or not (_running(left) and _running(right)):
        return False
    top = max(left[0][0].top, right[0][0].top)
    bottom = min(left[-1][0].bottom, right[-1][0].bottom)
    shorter = min(side[-1][0].bottom - side[0][0].top for side in (left, right))
    return bottom - top > shorter / 2


def _running(side: list[Run]) -> bool:
    words = [spot.word.text for run in side for spot in run]
    return median(map(len, side)) >= COLUMN_WORDS and fmean(word[0].isalpha() for word in words) > 0.7
