"""Train a model with a team's own labels, in seconds."""

import asyncio
import random
import string
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import rowmill as rm
from rowmill_systems.articles.classifying.calibration import CalibrationBin, calibration_bins, calibration_error
from rowmill_systems.articles.classifying.labelled import LabelledArticle, count_labels
from rowmill_systems.articles.classifying.port import ArticleText
from rowmill_systems.articles.classifying.regression import (
    Chosen,
    Examples,
    chances,
    choose,
    fit,
)
from rowmill_systems.articles.classifying.taxonomy import Taxonomy, load_taxonomy
from rowmill_systems.articles.classifying.texts import joined
from rowmill_systems.articles.classifying.topic_model import TopicModel, open_topic_model
from rowmill_systems.articles.classifying.trained import TrainedModel, centred, fingerprint, label_priors
from rowmill_systems.articles.classifying.word_features import HashedWords, Ids, Numbers, word_ids
from rowmill_systems.parts.embeddings import Embedder, Vectors

LEAST_PER_LABEL = 5
LEAST_LABELS = 2
MOST_FOR_CHOICE = 4000
"""Articles by which the regularisation is chosen. More cost time and change nothing."""
NONSENSE = 24
"""Made-up texts of letters, that are learned as "no topic"."""


class TooFewLabels(rm.PermanentError):
    """There are too few labelled articles to learn from. The message says of which label, and what to do."""

    code = "too_few_labels"


@dataclass(frozen=True, slots=True)
class TrainingReport:
    """What cross-validation says: each article was judged by a model that had not seen it."""

    articles: int
    labels: Mapping[str, int]
    """How many articles each label has."""
    described: tuple[str, ...]
    """Labels that a topic of the taxonomy stands for: they start with a prior."""
    exclusive: bool
    judged: int
    accuracy: float
    """The share of articles whose best label is one of theirs."""
    prior_accuracy: float | None
    """That of the descriptions alone, without any label. None if not every label has a description."""
    calibration_error: float
    bins: tuple[CalibrationBin, ...]
    strength: float
    """Of the regularisation."""
    learned_weight: float
    prior_weight: float
    """Of the descriptions of topics, beside what was learned."""
    seconds: float


async def train(
    labelled: Sequence[LabelledArticle],
    embedder: Embedder,
    *,
    taxonomy: Taxonomy | None = None,
    topics: Mapping[str, Sequence[str]] | None = None,
    seed: int = 1,
) -> tuple[TrainedModel, TrainingReport]:
    """Train with labelled articles. `topics` has, for labels, the topics of the taxonomy that stand for them.

    The descriptions of topics are what the model believes first, so that few labels are not worse than none. Raises
    TooFewLabels.
    """
    begun = time.monotonic()
    taxonomy = taxonomy or load_taxonomy()
    counts = check_counts(labelled)
    labels = tuple(sorted(counts))
    exclusive = not any(len(each.labels) > 1 for each in labelled)
    articles = [each.article for each in labelled]
    truth = _truth(labelled, labels, exclusive)
    if exclusive:
        nothing = no_topic_articles(taxonomy, seed)
        articles = [*articles, *nothing]
        none = np.zeros((len(nothing), truth.shape[1]))
        none[:, -1] = 1
        truth = np.vstack([truth, none])
    texts = [joined(article) for article in articles]
    vectors = await embedder.embed(texts)
    model = await open_topic_model(embedder, taxonomy)
    known = {label: tuple(found) for label, found in (topics or {}).items() if found and label in counts}
    prepared = _Prepared(labels, exclusive, known, articles, texts, vectors, truth, len(labelled))
    trained, report = await asyncio.to_thread(_train, prepared, model, await fingerprint(embedder), counts, seed)
    return trained, TrainingReport(**report, seconds=round(time.monotonic() - begun, 2))


@dataclass(frozen=True)
class _Prepared:
    labels: tuple[str, ...]
    exclusive: bool
    known: Mapping[str, tuple[str, ...]]
    articles: Sequence[ArticleText]
    texts: Sequence[str]
    vectors: Vectors
    truth: Numbers
    real: int
    """Articles of the file; after them come those without a topic."""


def _train(
    given: _Prepared, topics: TopicModel, embedder: str, counts: Mapping[str, int], seed: int
) -> tuple[TrainedModel, dict[str, Any]]:
    prior = label_priors(topics, given.labels, given.known, given.vectors, given.texts, exclusive=given.exclusive)
    words = [word_ids(article) for article in given.articles]
    vocabulary = HashedWords.of(words[: given.real])
    middle = given.vectors[: given.real].mean(axis=0)
    examples = Examples(centred(given.vectors, middle), vocabulary.rows(words), given.truth)
    some = _sample(len(given.truth), seed)
    chosen = choose(examples.take(some), prior[some], exclusive=given.exclusive, seed=seed)
    regression = fit(examples, chosen.strength / len(given.truth), exclusive=given.exclusive)
    trained = TrainedModel(
        given.labels, given.exclusive, given.known, topics.taxonomy.digest, embedder, middle, vocabulary, regression,
        chosen.mixture, given.real,
    )  # fmt: skip
    real = some < given.real
    return trained, _report(given, given.truth[some][real], prior[some][real], chosen, real, counts)


def _report(
    given: _Prepared,
    truth: Numbers,
    prior: Numbers,
    chosen: Chosen,
    real: npt.NDArray[np.bool_],
    counts: Mapping[str, int],
) -> dict[str, Any]:
    labels = len(given.labels)
    found = chances(chosen.logits, given.exclusive)[real][:, :labels]
    truth, prior = truth[:, :labels], prior[:, :labels]
    rows = np.arange(len(found))
    right = truth[rows, found.argmax(axis=1)]
    bins = calibration_bins(found.max(axis=1), right)
    described = set(given.known) == set(given.labels)
    return {
        "articles": given.real, "labels": dict(sorted(counts.items())), "described": tuple(sorted(given.known)),
        "exclusive": given.exclusive, "judged": len(found), "accuracy": float(right.mean()),
        "prior_accuracy": float(truth[rows, prior.argmax(axis=1)].mean()) if described else None,
        "calibration_error": calibration_error(bins), "bins": tuple(bins), "strength": chosen.strength,
        "learned_weight": chosen.mixture.learned, "prior_weight": chosen.mixture.prior,
    }  # fmt: skip


def check_counts(labelled: Sequence[LabelledArticle]) -> dict[str, int]:
    """Return how many articles each label has. Raises TooFewLabels."""
    counts = count_labels(labelled)
    if len(counts) < LEAST_LABELS:
        raise TooFewLabels(
            f"there are {len(counts)} different labels. At least {LEAST_LABELS} are needed: look at --label"
        )
    rare = sorted(label for label, count in counts.items() if count < LEAST_PER_LABEL)
    if rare:
        shown = ", ".join(f"{label} ({counts[label]})" for label in rare[:10]) + (", …" if len(rare) > 10 else "")
        raise TooFewLabels(
            f"labels need {LEAST_PER_LABEL} articles each. Too few have: {shown}. Label more, or leave these out with "
            "--drop-rare"
        )
    return dict(counts)


def without_rare(labelled: Sequence[LabelledArticle]) -> tuple[list[LabelledArticle], list[str]]:
    """Leave out labels that too few articles have, and articles that have no other. Return the labels left out."""
    counts = count_labels(labelled)
    rare = {label for label, count in counts.items() if count < LEAST_PER_LABEL}
    kept = [
        LabelledArticle(each.line, each.article, tuple(label for label in each.labels if label not in rare))
        for each in labelled
        if not each.labels or set(each.labels) - rare
    ]
    return kept, sorted(rare)


def _truth(labelled: Sequence[LabelledArticle], labels: Sequence[str], exclusive: bool) -> Numbers:
    place = {label: column for column, label in enumerate(labels)}
    truth = np.zeros((len(labelled), len(labels) + exclusive))
    for row, each in enumerate(labelled):
        for label in each.labels:
            truth[row, place[label]] = 1
        if exclusive and not each.labels:
            truth[row, -1] = 1
    return truth


def no_topic_articles(taxonomy: Taxonomy, seed: int) -> list[ArticleText]:
    """Return texts without a topic: those of the taxonomy, and words of letters by chance."""
    chance = random.Random(seed)
    words = ["".join(chance.choices(string.ascii_lowercase, k=chance.randint(2, 9))) for _ in range(NONSENSE * 8)]
    nonsense = [" ".join(words[place * 8 : place * 8 + chance.randint(1, 8)]) for place in range(NONSENSE)]
    return [ArticleText(text) for text in (*load_taxonomy().no_topic, *taxonomy.no_topic, *nonsense)]


def _sample(count: int, seed: int) -> Ids:
    if count <= MOST_FOR_CHOICE:
        return np.arange(count)
    return np.sort(np.random.default_rng(seed).choice(count, MOST_FOR_CHOICE, replace=False))
