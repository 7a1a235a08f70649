"""Logistic regression on dense and sparse features, with a prior that few examples don't outweigh."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rowmill_systems.articles.classifying.products import dot, product, transposed_product
from rowmill_systems.articles.classifying.word_features import Ids, Numbers, Small, SparseRows

MOST_ROUNDS = 60
GOOD_ENOUGH = 1e-4
MEMORY = 8
DENSE_SCALE = 0.58
"""Of dense features beside sparse ones: regularisation acts on both alike, and the dense ones are fewer, stronger."""
SMOOTHING = 0.1
FOLDS = 3
STRENGTHS = (100.0, 10.0, 3.0, 1.0, 0.3, 0.1)
"""Of the regularisation, each divided by the number of examples."""


@dataclass(frozen=True)
class Examples:
    dense: Numbers
    sparse: SparseRows
    truth: Numbers
    """1 where a class fits. In each row one, if only one can fit."""

    def take(self, places: Ids) -> "Examples":
        """Return some examples, by their places in ascending order."""
        return Examples(self.dense[places], self.sparse.take(places), self.truth[places])


@dataclass(frozen=True)
class Regression:
    """logit = dense @ … + sparse @ … + constant, for each class."""

    dense: Numbers
    sparse: Numbers
    constant: Numbers
    telling: Small
    """How much each sparse feature tells classes apart, by itself. They are multiplied by it."""

    def logits(self, dense: Numbers, sparse: SparseRows) -> Numbers:
        dense_part = product(dense.astype(np.float32), (DENSE_SCALE * self.dense).astype(np.float32))
        return dense_part + sparse.scaled(self.telling).times(self.sparse.astype(np.float32)) + self.constant


def softmax(logits: Numbers) -> Numbers:
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    result: Numbers = raised / raised.sum(axis=1, keepdims=True)
    return result


def chances(logits: Numbers, exclusive: bool) -> Numbers:
    """Return probabilities: that sum to 1 if classes exclude each other, otherwise each for itself."""
    return softmax(logits) if exclusive else 1 / (1 + np.exp(-np.clip(logits, -40, 40)))


def log_loss(logits: Numbers, truth: Numbers, exclusive: bool) -> float:
    """Return the mean loss of a row."""
    if exclusive:
        highest = logits.max(axis=1, keepdims=True)
        total = np.log(np.exp(logits - highest).sum(axis=1, keepdims=True)) + highest
        return float(((total - logits) * truth).sum() / len(truth))
    return float((np.logaddexp(0, logits) - truth * logits).sum() / len(truth))


def fit(examples: Examples, l2: float, *, exclusive: bool, start: Regression | None = None) -> Regression:
    """Minimise the loss plus `l2`/2 times the squares of the weights."""
    count, classes = examples.truth.shape
    width, words = examples.dense.shape[1], examples.sparse.width
    dense = (examples.dense * DENSE_SCALE).astype(np.float32)
    first, second = width * classes, (width + words) * classes
    telling = how_telling(examples)
    sparse = examples.sparse.scaled(telling)

    def loss(point: Numbers) -> tuple[float, Numbers]:
        weights = point[:second]
        small = weights.astype(np.float32)
        on_dense, on_words = small[:first].reshape(width, classes), small[first:].reshape(words, classes)
        logits = (product(dense, on_dense) + sparse.times(on_words)).astype(float) + point[second:]
        rest = (chances(logits, exclusive) - examples.truth) / count
        small_rest = rest.astype(np.float32)
        value = log_loss(logits, examples.truth, exclusive) + l2 / 2 * dot(weights, weights)
        slope = np.concatenate([
            transposed_product(dense, small_rest).ravel(),
            sparse.transposed_times(small_rest).ravel(),
            rest.sum(axis=0),
        ])  # fmt: skip
        slope[:second] += l2 * weights
        return value, slope

    begin = np.zeros(second + classes)
    if start is not None:
        begin = np.concatenate([start.dense.ravel(), start.sparse.ravel(), start.constant])
    found = minimise(loss, begin)
    return Regression(
        found[:first].reshape(width, classes), found[first:second].reshape(words, classes), found[second:], telling
    )


def how_telling(examples: Examples) -> Small:
    """Return for each sparse feature how much more often one class has it than the others, as a logarithm.

    Words that all classes use alike count little from the start, as in naive Bayes: fewer examples are needed.
    """
    there = examples.sparse.transposed_times(examples.truth.astype(np.float32))
    total = there.sum(axis=0)
    there = there[:, total >= total.mean() / 10] + SMOOTHING  # a class of a few words would make every word telling
    elsewhere = there.sum(axis=1, keepdims=True) - there + SMOOTHING
    ratios = np.log(there / there.sum(axis=0)) - np.log(elsewhere / elsewhere.sum(axis=0))
    result: Small = np.abs(ratios).max(axis=1).astype(np.float32)
    return result


def minimise(loss: Callable[[Numbers], tuple[float, Numbers]], point: Numbers) -> Numbers:
    """Return the lowest point of a smooth, convex function, by L-BFGS with halved steps."""
    value, slope = loss(point)
    steps: deque[tuple[Numbers, Numbers]] = deque(maxlen=MEMORY)
    for _ in range(MOST_ROUNDS):
        direction = -_scaled(slope, steps)
        along = dot(slope, direction)
        size = 1.0
        while True:
            moved = point + size * direction
            new_value, new_slope = loss(moved)
            if new_value <= value + 1e-4 * size * along or size < 1e-6:
                break
            size /= 2
        if dot(moved - point, new_slope - slope) > 1e-12:
            steps.append((moved - point, new_slope - slope))
        gain = value - new_value
        point, value, slope = moved, new_value, new_slope
        if gain < GOOD_ENOUGH * max(abs(value), 1e-3):
            break
    return point


def _scaled(slope: Numbers, steps: deque[tuple[Numbers, Numbers]]) -> Numbers:
    """Multiply the slope by an estimate of the inverse curvature, from the last steps."""
    result = slope.copy()
    shares: list[float] = []
    for step, change in reversed(steps):
        shares.append(dot(step, result) / dot(step, change))
        result -= shares[-1] * change
    if steps:
        step, change = steps[-1]
        result *= dot(step, change) / dot(change, change)
    else:
        result /= max(1.0, dot(result, result) ** 0.5)
    for (step, change), share in zip(steps, reversed(shares), strict=True):
        result += step * (share - dot(change, result) / dot(step, change))
    return result


@dataclass(frozen=True, slots=True)
class Mixture:
    """How much what was learned counts, and how much what was believed before. Makes probabilities right, too."""

    learned: float
    prior: float

    def logits(self, learned: Numbers, prior: Numbers) -> Numbers:
        return self.learned * learned + self.prior * prior


@dataclass(frozen=True)
class Chosen:
    """A regularisation, and what models with it said of examples that they had not seen."""

    strength: float
    mixture: Mixture
    logits: Numbers
    """Of the mixture."""
    loss: float


def choose(examples: Examples, prior: Numbers, *, exclusive: bool, seed: int = 1) -> Chosen:
    """Choose the strength of the regularisation and the weight of the prior, by cross-validation.

    With few examples, models know little about those that they have not seen: then the prior gets the weight.
    """
    folds = _folds(examples.truth, seed)
    models: list[Regression | None] = [None] * FOLDS
    best: Chosen | None = None
    worse = 0
    for strength in STRENGTHS:
        learned = np.zeros_like(examples.truth)
        for fold in range(FOLDS):
            rest, left_out = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
            model = fit(examples.take(rest), strength / len(rest), exclusive=exclusive, start=models[fold])
            out = examples.take(left_out)
            learned[left_out] = model.logits(out.dense, out.sparse)
            models[fold] = model
        mixture = fit_mixture(learned, prior, examples.truth, exclusive=exclusive)
        logits = mixture.logits(learned, prior)
        loss = log_loss(logits, examples.truth, exclusive)
        if best is None or loss < best.loss:
            best, worse = Chosen(strength, mixture, logits, loss), 0
        else:
            worse += 1
            if worse == 2:
                break
    assert best is not None
    return best


def fit_mixture(learned: Numbers, prior: Numbers, truth: Numbers, *, exclusive: bool) -> Mixture:
    """Return the weights with the least loss. None is negative."""

    def loss(point: Numbers) -> tuple[float, Numbers]:
        weights = point**2  # keeps them from being negative
        logits = weights[0] * learned + weights[1] * prior
        rest = (chances(logits, exclusive) - truth) / len(truth)
        slope = np.array([(rest * learned).sum(), (rest * prior).sum()])
        return log_loss(logits, truth, exclusive), 2 * point * slope

    found = minimise(loss, np.array([1.0, 0.5])) ** 2
    return Mixture(float(found[0]), float(found[1]))


def _folds(truth: Numbers, seed: int) -> Ids:
    """Return a fold for each example: the examples of a class are spread over all folds."""
    chance = np.random.default_rng(seed)
    order = chance.permutation(len(truth))
    order = order[np.argsort(truth[order].argmax(axis=1), kind="stable")]
    folds = np.zeros(len(truth), np.int64)
    folds[order] = np.arange(len(truth)) % FOLDS
    return folds
