"""Figures of an evaluation."""

from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from rowmill_systems.articles.classifying.calibration import calibration_bins, calibration_error
from rowmill_systems.articles.classifying.evaluating import bin_lines, calibration_svg, compare, evaluate
from rowmill_systems.articles.classifying.labelled import LabelledArticle
from rowmill_systems.articles.classifying.port import ArticleText, Topics, TopicScore

LABELS = ("a", "b")
SCORES = np.array([[0.9, 0.1], [0.8, 0.3], [0.2, 0.6], [0.4, 0.2], [0.0, 0.0]])
TRUTH = np.array([[1, 0], [0, 1], [0, 1], [1, 0], [0, 1]], bool)


def test_accuracy_precision_recall_and_confusion() -> None:
    found = compare(SCORES, TRUTH, LABELS)

    assert found["accuracy"] == pytest.approx(3 / 5)
    a, b = found["labels"]["a"], found["labels"]["b"]
    assert (a.articles, a.precision, a.recall) == (2, pytest.approx(2 / 3), 1.0)
    assert (b.articles, b.precision, b.recall) == (3, 1.0, pytest.approx(1 / 3))
    assert b.f1 == pytest.approx(0.5)
    assert found["macro_f1"] == pytest.approx((a.f1 + b.f1) / 2)
    assert found["confusion"] == {"a": {"a": 2, "b": 0, "(none)": 0}, "b": {"a": 1, "b": 1, "(none)": 1}}
    assert found["micro_f1"] == pytest.approx(2 * 4 / (5 + 5))


def test_coverage_counts_only_high_scores() -> None:
    at = {each.threshold: each for each in compare(SCORES, TRUTH, LABELS)["coverage"]}

    assert (at[0.7].covered, at[0.7].accuracy) == (pytest.approx(0.4), 0.5)
    assert (at[0.9].covered, at[0.9].accuracy) == (pytest.approx(0.2), 1.0)


def test_calibration_compares_scores_with_the_truth() -> None:
    bins = calibration_bins([0.95, 0.95, 0.15, 1.0], [True, False, False, True])

    assert [(each.low, each.count, each.right) for each in bins] == [(0.1, 1, 0.0), (0.9, 3, pytest.approx(2 / 3))]
    assert calibration_error(bins) == pytest.approx((0.15 + 3 * (2.9 / 3 - 2 / 3)) / 4)
    assert calibration_error([]) == 0


def test_calibration_is_drawn() -> None:
    bins = calibration_bins([0.95, 0.15], [True, False])

    picture = ElementTree.fromstring(calibration_svg("A & B", {"one": bins, "two": bins}))
    lines = list(bin_lines(bins))

    assert len(picture.findall("{*}circle")) == 4
    assert len(picture.findall("{*}polyline")) == 2
    assert lines[1].split()[:4] == ["0.1–0.2", "1", "0.15", "0.00"]
    assert lines[2].count("█") == 39


class FixedClassifier:
    """Answers by the title."""

    name = "fixed"

    def classify(self, **given: Any) -> Topics:
        raise NotImplementedError

    async def classify_batch(
        self, articles: Sequence[ArticleText], *, top_k: int = 3, threshold: float = 0.3
    ) -> list[Topics | Exception]:
        known: dict[str, Topics | Exception] = {
            "one": (TopicScore("x.one", 0.5), TopicScore("x.two", 0.5)), "other": (TopicScore("y", 0.6),),
            "bad": ValueError("planted"), "none": (),
        }  # fmt: skip
        return [known[article.title] for article in articles]

    async def close(self) -> None:
        pass


async def test_topics_of_a_label_count_together_and_failures_count_as_wrong() -> None:
    given = [LabelledArticle(1, ArticleText(title), (label,)) for title, label in
             [("one", "X"), ("other", "Y"), ("bad", "X"), ("none", "Y")]]  # fmt: skip

    found = await evaluate(FixedClassifier(), given, {"X": ["x.one", "x.two"], "Y": ["y"]})

    assert (found.articles, found.failed, found.accuracy) == (4, 1, 0.5)
    assert {round(each.score, 2) for each in found.bins} == {0.0, 0.75, 0.6}
