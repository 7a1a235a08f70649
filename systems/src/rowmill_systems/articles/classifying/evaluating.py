"""Measure a classifier with labelled articles."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt

from rowmill_systems.articles.classifying.calibration import (
    CalibrationBin,
    Numbers,
    calibration_bins,
    calibration_error,
)
from rowmill_systems.articles.classifying.labelled import LabelledArticle
from rowmill_systems.articles.classifying.port import Classifier
from rowmill_systems.articles.settings import THRESHOLD

ALL_TOPICS = 10_000
BATCH = 500
THRESHOLDS = (0.3, 0.5, 0.7, 0.8, 0.9)
NONE = "(none)"


@dataclass(frozen=True, slots=True)
class LabelFigures:
    articles: int
    """That have the label."""
    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, slots=True)
class CoverageFigures:
    """If only answers with this score count."""

    threshold: float
    covered: float
    """The share of articles that get an answer."""
    accuracy: float | None
    """Among those. None if there are none."""


@dataclass(frozen=True, slots=True)
class EvaluationReport:
    classifier: str
    articles: int
    failed: int
    """Articles that the classifier could not take."""
    accuracy: float
    """The share of articles whose best label is one of theirs, however low its score."""
    macro_f1: float
    micro_f1: float
    """Of all labels with a score of 0.3 at least: what an article gets by default."""
    labels: Mapping[str, LabelFigures]
    confusion: Mapping[str, Mapping[str, int]]
    """Articles by label (the first, if there are several) and by what was answered."""
    calibration_error: float
    bins: tuple[CalibrationBin, ...]
    coverage: tuple[CoverageFigures, ...]
    seconds: float
    per_second: float


async def evaluate(
    classifier: Classifier, labelled: Sequence[LabelledArticle], topics: Mapping[str, Sequence[str]]
) -> EvaluationReport:
    """Classify the articles and compare. `topics` has the topics of the classifier that each label stands for."""
    labels = tuple(topics)
    scores = np.zeros((len(labelled), len(labels)))
    failed: list[int] = []
    seconds = 0.0
    await classifier.classify_batch([labelled[0].article])  # the model is loaded before the clock starts
    for start in range(0, len(labelled), BATCH):
        some = labelled[start : start + BATCH]
        begun = time.monotonic()
        answers = await classifier.classify_batch([each.article for each in some], top_k=ALL_TOPICS, threshold=0.0)
        seconds += time.monotonic() - begun
        for row, answer in enumerate(answers, start):
            if isinstance(answer, Exception):
                failed.append(row)
                continue
            found = {each.topic: each.score for each in answer}
            scores[row] = [label_score([found.get(topic, 0.0) for topic in topics[label]]) for label in labels]
    truth = np.array([[label in each.labels for label in labels] for each in labelled], bool).reshape(scores.shape)
    report = compare(scores, truth, labels)
    return EvaluationReport(
        classifier.name, len(labelled), len(failed), **report,
        seconds=round(seconds, 3), per_second=round(len(labelled) / max(seconds, 1e-9), 1),
    )  # fmt: skip


def label_score(scores: Sequence[float]) -> float:
    """Return how likely it is that one of several topics fits, taken as independent."""
    left = 1.0
    for score in scores:
        left *= 1 - score
    return 1 - left


def compare(scores: Numbers, truth: npt.NDArray[np.bool_], labels: Sequence[str]) -> dict[str, Any]:
    """Return the figures. A row has the score of each label; `truth` says which are right."""
    best, highest = scores.argmax(axis=1), scores.max(axis=1)
    rows = np.arange(len(scores))
    answered = highest > 0
    right = truth[rows, best] & answered
    figures: dict[str, LabelFigures] = {}
    for place, label in enumerate(labels):
        said = (best == place) & answered
        # An article with several labels counts for the one that was answered, otherwise for all of its labels.
        there = truth[:, place] & (said | ~right)
        hits = int((said & truth[:, place]).sum())
        figures[label] = LabelFigures(
            int(truth[:, place].sum()), _share(hits, int(said.sum())), _share(hits, int(there.sum())),
            _share(2 * hits, int(said.sum()) + int(there.sum())),
        )  # fmt: skip
    confusion = {label: dict.fromkeys([*labels, NONE], 0) for label in [*labels, NONE]}
    for row in rows:
        own = labels[best[row]] if right[row] else labels[truth[row].argmax()] if truth[row].any() else NONE
        confusion[own][labels[best[row]] if answered[row] else NONE] += 1
    given = scores >= THRESHOLD
    bins = calibration_bins(highest, right)
    coverage = []
    for threshold in THRESHOLDS:
        covered = (highest >= threshold) & answered
        accuracy = float(right[covered].mean()) if covered.any() else None
        coverage.append(CoverageFigures(threshold, float(covered.mean()), accuracy))
    return {
        "accuracy": float(right.mean()),
        "macro_f1": float(np.mean([each.f1 for each in figures.values() if each.articles] or [0.0])),
        "micro_f1": _share(2 * int((given & truth).sum()), int(given.sum()) + int(truth.sum())),
        "labels": figures,
        "confusion": {own: said for own, said in confusion.items() if any(said.values()) or own != NONE},
        "calibration_error": calibration_error(bins),
        "bins": tuple(bins),
        "coverage": tuple(coverage),
    }


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def bin_lines(bins: Sequence[CalibrationBin], width: int = 40) -> Iterator[str]:
    """Yield a line for each bin: the bar is the share that was right, the mark is the score."""
    yield f"{'score':>9}  {'articles':>8}  {'mean':>5}  {'right':>5}"
    for each in bins:
        bar = list(("█" * round(each.right * width)).ljust(width))
        bar[min(round(each.score * width), width - 1)] = "|"
        span = f"{each.low:.1f}–{each.high:.1f}"
        yield f"{span:>9}  {each.count:>8,}  {each.score:>5.2f}  {each.right:>5.2f}  {''.join(bar).rstrip()}"


SIDE, ROOM = 320, 46
FONT = 'font-family="sans-serif" font-size="12" fill="#333"'
COLOURS = ("#1f6f54", "#c9a66b", "#4a6fa5", "#a34a5c")


def calibration_svg(title: str, series: Mapping[str, Sequence[CalibrationBin]]) -> str:
    """Draw how often answers are right by their score. On the diagonal, a score is a probability. The larger a dot,
    the more articles it stands for."""
    parts = [f'<text x="{ROOM}" y="18" {FONT} font-weight="bold">{escape(title)}</text>']

    def at(score: float, share: float) -> tuple[float, float]:
        return ROOM + score * SIDE, 30 + (1 - share) * SIDE

    for step in range(0, 11, 2):
        x, y = at(step / 10, step / 10)
        parts += [
            f'<line x1="{ROOM}" x2="{ROOM + SIDE}" y1="{y:.0f}" y2="{y:.0f}" stroke="#e4e4e4"/>',
            f'<text x="{ROOM - 6}" y="{y + 4:.0f}" text-anchor="end" {FONT}>{step / 10:.1f}</text>',
            f'<text x="{x:.0f}" y="{30 + SIDE + 16}" text-anchor="middle" {FONT}>{step / 10:.1f}</text>',
        ]
    (left, low), (right, high) = at(0, 0), at(1, 1)
    parts.append(f'<line x1="{left}" y1="{low}" x2="{right}" y2="{high}" stroke="#999" stroke-dasharray="4 4"/>')
    for number, (name, bins) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        total = sum(each.count for each in bins) or 1
        points = [at(each.score, each.right) for each in bins]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for (x, y), each in zip(points, bins, strict=True):
            size = 2 + 8 * (each.count / total) ** 0.5
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size:.1f}" fill="{colour}" fill-opacity="0.7"/>')
        top = 44 + number * 18
        parts += [
            f'<rect x="{ROOM + SIDE + 16}" y="{top - 9}" width="10" height="10" fill="{colour}"/>',
            f'<text x="{ROOM + SIDE + 32}" y="{top}" {FONT}>{escape(name)}</text>',
        ]
    parts += [
        f'<text x="{ROOM + SIDE / 2}" y="{30 + SIDE + 34}" text-anchor="middle" {FONT}>score</text>',
        f'<text x="12" y="{30 + SIDE / 2}" text-anchor="middle" transform="rotate(-90 12 {30 + SIDE / 2})" {FONT}>'
        "share that is right</text>",
    ]
    width, height = ROOM + SIDE + 260, SIDE + 74
    inside = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">\n'
        f'<rect width="{width}" height="{height}" fill="white"/>\n{inside}\n</svg>\n'
    )
