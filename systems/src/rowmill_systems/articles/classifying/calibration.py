"""From the evidence for a topic to the probability that it fits."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]
FILE = Path(__file__).with_name("calibration.json")
PLACES = 10


@dataclass(frozen=True, slots=True)
class Calibration:
    """A logistic regression on the evidence: how alike text and topic are, how much more alike than other topics, and
    how short the text is. Fitted on texts of ours by tools.articles_calibration."""

    similarity: float
    share: float
    shortness: float
    constant: float

    def probabilities(self, similarity: Numbers, log_share: Numbers, words: npt.NDArray[np.int64]) -> Numbers:
        """`similarity` and `log_share` have a row for each text and a column for each topic."""
        shortness = self.shortness / np.maximum(words, 1)[:, None]
        return sigmoid(self.similarity * similarity + self.share * log_share + shortness + self.constant)


@cache
def load_calibration() -> Calibration:
    return Calibration(**json.loads(FILE.read_text("utf-8")))


def sigmoid(values: Numbers) -> Numbers:
    result: Numbers = 1 / (1 + np.exp(-np.clip(values, -40, 40)))
    return result


def fit_logistic(features: Numbers, truth: Numbers, *, l2: float = 1e-3, rounds: int = 50) -> Numbers:
    """Return the weights of a logistic regression, the constant last. Newton's method; for few features."""
    inputs = np.hstack([features, np.ones((len(features), 1))])
    weights = np.zeros(inputs.shape[1])
    for _ in range(rounds):
        chance = sigmoid(inputs @ weights)
        curvature = inputs.T @ (inputs * (chance * (1 - chance) + 1e-9)[:, None]) + l2 * np.eye(len(weights))
        step = np.linalg.solve(curvature, inputs.T @ (truth - chance) - l2 * weights)
        weights += step
        if np.abs(step).max() < 1e-8:
            break
    return weights


@dataclass(frozen=True, slots=True)
class CalibrationBin:
    """Answers with scores in a range."""

    low: float
    high: float
    count: int
    score: float
    """The mean of their scores."""
    right: float
    """The share of them that is right. With good calibration it equals the score."""


def calibration_bins(scores: Sequence[float] | Numbers, right: Sequence[bool] | Numbers) -> list[CalibrationBin]:
    """Group answers by score, in ten bins of equal width. Empty bins are left out."""
    given, hits = np.asarray(scores, float), np.asarray(right, float)
    places = np.minimum((given * PLACES).astype(int), PLACES - 1)
    return [
        CalibrationBin(
            place / PLACES,
            (place + 1) / PLACES,
            int(there.sum()),
            float(given[there].mean()),
            float(hits[there].mean()),
        )
        for place in range(PLACES)
        if (there := places == place).any()
    ]


def calibration_error(bins: Sequence[CalibrationBin]) -> float:
    """Return the expected calibration error: how far scores are from the truth, on average over all answers."""
    total = sum(each.count for each in bins)
    return sum(each.count * abs(each.score - each.right) for each in bins) / total if total else 0.0
