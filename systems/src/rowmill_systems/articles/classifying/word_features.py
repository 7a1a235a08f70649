"""Words of texts as a sparse matrix, by hash: the words themselves are not kept."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from rowmill_systems.articles.classifying.port import ArticleText
from rowmill_systems.articles.classifying.texts import WORD

Ids = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]
Small = npt.NDArray[np.float32]
"""Sparse numbers and what they are multiplied with: half the memory, twice as fast."""
MOST_TITLE, MOST_TEXT = 300, 2000
"""Characters."""
MOST_FEATURES = 200_000
UNSPACED = "\u2e80"
"""From here on come scripts that write no spaces between words: pairs of characters stand for words."""


def word_ids(article: ArticleText) -> Ids:
    """Return the hashes of all words and pairs of words, and those of the title once more as words of a title."""
    title = _grams(article.title[:MOST_TITLE])
    grams = [*title, *_grams(article.description[:MOST_TEXT]), *(f"title {gram}" for gram in title)]
    return np.array([zlib.crc32(gram.encode("utf-8", "replace")) for gram in grams], np.int64)


def _grams(text: str) -> list[str]:
    words: list[str] = []
    for word in WORD.findall(text.casefold()):
        if word[0] >= UNSPACED and len(word) > 2:
            words += [word[place : place + 2] for place in range(len(word) - 1)]
        else:
            words.append(word)
    return [*words, *(f"{one} {other}" for one, other in pairwise(words))]


@dataclass(frozen=True)
class SparseRows:
    """A matrix with few numbers in each row. The numbers of a row come one after the other, in the order of rows."""

    rows: Ids
    columns: Ids
    values: Small
    height: int
    width: int

    def times(self, dense: Small) -> Small:
        """Return self @ dense."""
        return _sums(self.values[:, None] * dense[self.columns], self.rows, self.height)

    def transposed_times(self, dense: Small) -> Small:
        """Return self.T @ dense."""
        order = self._by_column
        return _sums(self.values[order, None] * dense[self.rows[order]], self.columns[order], self.width)

    @cached_property
    def _by_column(self) -> Ids:
        return np.argsort(self.columns, kind="stable")

    def scaled(self, factors: Small) -> "SparseRows":
        """Multiply each column by a factor, and bring rows back to length 1."""
        values = self.values * factors[self.columns]
        lengths = np.sqrt(np.bincount(self.rows, values * values, self.height))
        values = (values / np.maximum(lengths, 1e-9)[self.rows]).astype(np.float32)
        return SparseRows(self.rows, self.columns, values, self.height, self.width)

    def take(self, places: Ids) -> "SparseRows":
        """Return some rows, in ascending order."""
        new = np.full(self.height, -1, np.int64)
        new[places] = np.arange(len(places))
        kept = new[self.rows] >= 0
        return SparseRows(new[self.rows[kept]], self.columns[kept], self.values[kept], len(places), self.width)


def _sums(values: Small, groups: Ids, count: int) -> Small:
    """Add up the rows of each group. Groups come one after the other."""
    sums = np.zeros((count, values.shape[1]), values.dtype)
    if len(groups):
        starts = np.flatnonzero(np.diff(groups, prepend=-1))
        sums[groups[starts]] = np.add.reduceat(values, starts, axis=0)
    return sums


@dataclass(frozen=True)
class HashedWords:
    """Which hashes count, and how much: rare words say more."""

    ids: Ids
    """In ascending order."""
    weights: Numbers

    @classmethod
    def of(cls, texts: Sequence[Ids], least: int = 2) -> "HashedWords":
        """Take the hashes that occur in `least` texts."""
        ids, counts = np.unique(np.concatenate([np.zeros(0, np.int64), *map(np.unique, texts)]), return_counts=True)
        kept = counts >= least
        if kept.sum() > MOST_FEATURES:
            kept &= counts > np.sort(counts)[-MOST_FEATURES]
        return cls(ids[kept], np.log((1 + len(texts)) / (1 + counts[kept])) + 1)

    def rows(self, texts: Sequence[Ids]) -> SparseRows:
        """Return a row for each text, of length 1; of zeros if it has no known word."""
        rows: list[Ids] = []
        columns: list[Ids] = []
        values: list[Numbers] = []
        for row, given in enumerate(texts):
            found, counts = np.unique(given, return_counts=True)
            places = np.searchsorted(self.ids, found)
            known = places < len(self.ids)
            known[known] = self.ids[places[known]] == found[known]
            weighted = (1 + np.log(counts[known])) * self.weights[places[known]]
            if len(weighted):
                rows.append(np.full(len(weighted), row))
                columns.append(places[known])
                values.append(weighted / np.linalg.norm(weighted))
        empty = np.zeros(0, np.int64)
        return SparseRows(
            np.concatenate([empty, *rows]),
            np.concatenate([empty, *columns]),
            np.concatenate([np.zeros(0), *values]).astype(np.float32),
            len(texts),
            len(self.ids),
        )
