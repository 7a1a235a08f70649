"""A model that was trained with a team's own labels, and its file."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

import rowmill as rm
from rowmill_systems.articles.classifying.local import LocalClassifier
from rowmill_systems.articles.classifying.port import ArticleText
from rowmill_systems.articles.classifying.regression import Mixture, Regression, chances
from rowmill_systems.articles.classifying.taxonomy import Taxonomy
from rowmill_systems.articles.classifying.topic_model import TopicModel, open_topic_model
from rowmill_systems.articles.classifying.word_features import HashedWords, Numbers, word_ids
from rowmill_systems.parts.embeddings import Embedder, Vectors

VERSION = 1
PROBE = "A probe: vectors of this sentence tell two models apart."
RETRAIN = "Run: rowmill systems articles train FILE.csv"


@dataclass(frozen=True)
class TrainedModel:
    """Weights for each label. No text that it was trained on is in it."""

    labels: tuple[str, ...]
    exclusive: bool
    """Whether an article has one label only."""
    topics: Mapping[str, tuple[str, ...]]
    """The topics of the taxonomy that stand for a label: what is believed before anything is learned."""
    taxonomy_digest: str
    embedder: str
    """Name and fingerprint of the embedder."""
    middle: Vectors
    """The mean of the vectors that it was trained on."""
    vocabulary: HashedWords
    regression: Regression
    mixture: Mixture
    articles: int

    def logits(self, vectors: Vectors, articles: Sequence[ArticleText], prior: Numbers) -> Numbers:
        sparse = self.vocabulary.rows([word_ids(article) for article in articles])
        return self.mixture.logits(self.regression.logits(centred(vectors, self.middle), sparse), prior)

    def save(self, path: Path) -> None:
        """Write it to a file, in place of what is there, without a moment at which it is half written."""
        about = {
            "version": VERSION, "labels": self.labels, "exclusive": self.exclusive, "topics": dict(self.topics),
            "taxonomy_digest": self.taxonomy_digest, "embedder": self.embedder,
            "mixture": [self.mixture.learned, self.mixture.prior], "articles": self.articles,
        }  # fmt: skip
        unfinished = path.with_name(f".{path.name}.unfinished")
        try:
            with unfinished.open("wb") as file:
                np.savez_compressed(
                    file,
                    about=np.frombuffer(json.dumps(about).encode(), np.uint8),
                    middle=self.middle,
                    word_ids=self.vocabulary.ids,
                    word_weights=self.vocabulary.weights.astype(np.float32),
                    dense=self.regression.dense.astype(np.float32),
                    sparse=self.regression.sparse.astype(np.float32),
                    constant=self.regression.constant,
                    telling=self.regression.telling,
                )
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)


def load_trained(path: Path) -> TrainedModel:
    """Read what `train` wrote. Nothing in the file is executed. Raises DeclarationError with the fix."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as found:
            arrays = {name: found[name] for name in found.files}
        about: dict[str, Any] = json.loads(arrays["about"].tobytes())
        if about["version"] != VERSION:
            raise _bad(path, f"it was written by another version of articles. {RETRAIN}")
        model = TrainedModel(
            tuple(map(str, about["labels"])),
            bool(about["exclusive"]),
            {label: tuple(topics) for label, topics in about["topics"].items()},
            str(about["taxonomy_digest"]),
            str(about["embedder"]),
            arrays["middle"].astype(np.float32),
            HashedWords(arrays["word_ids"].astype(np.int64), arrays["word_weights"].astype(float)),
            Regression(
                arrays["dense"].astype(float), arrays["sparse"].astype(float), arrays["constant"].astype(float),
                arrays["telling"].astype(np.float32),
            ),
            Mixture(*map(float, about["mixture"])),
            int(about["articles"]),
        )  # fmt: skip
    except (OSError, EOFError) as error:
        raise _bad(path, f"it can't be read. {RETRAIN}") from error
    except (KeyError, ValueError, TypeError, AttributeError, BadZipFile) as error:
        raise _bad(path, f"it is not a file that train wrote, or it is damaged. {RETRAIN}") from error
    classes = len(model.labels) + model.exclusive
    learned, words = model.regression, len(model.vocabulary.ids)
    shapes = (learned.dense.shape, learned.sparse.shape, learned.constant.shape, learned.telling.shape)
    if shapes != ((len(model.middle), classes), (words, classes), (classes,), (words,)):
        raise _bad(path, f"its parts don't fit together. {RETRAIN}")
    return model


def _bad(path: Path, problem: str) -> rm.errors.DeclarationError:
    return rm.errors.DeclarationError(str(path), [problem], "trained model")


class TrainedClassifier(LocalClassifier):
    """A Classifier of a team's own labels: its topics are the labels."""

    def __init__(self, embedder: Embedder, taxonomy: Taxonomy, model: TrainedModel, path: Path) -> None:
        """Raises DeclarationError if the model was trained with other topics; `path` is named then."""
        if model.taxonomy_digest != taxonomy.digest:
            raise _bad(path, f"it was trained with another taxonomy. Give that one, or train again. {RETRAIN}")
        self.model, self.taxonomy, self._path = model, taxonomy, path
        self.name = f"trained-{len(model.labels)}-{model.articles}/{model.embedder}"
        self._embedder = embedder
        self._topics: TopicModel | None = None

    async def open_topics(self) -> Sequence[str]:
        await self._open()
        return self.model.labels

    async def chances(self, texts: Sequence[str], articles: Sequence[ArticleText]) -> Numbers:
        topics, vectors = await self._open(), await self._embedder.embed(texts)
        return await asyncio.to_thread(self._chances, topics, vectors, texts, articles)

    def _chances(
        self, topics: TopicModel, vectors: Vectors, texts: Sequence[str], articles: Sequence[ArticleText]
    ) -> Numbers:
        model = self.model
        prior = label_priors(topics, model.labels, model.topics, vectors, texts, exclusive=model.exclusive)
        found = chances(model.logits(vectors, articles, prior), model.exclusive)[:, : len(model.labels)]
        found[~vectors.any(axis=1)] = 0
        return found

    async def _open(self) -> TopicModel:
        if self._topics is None:
            if await fingerprint(self._embedder) != self.model.embedder:
                raise _bad(self._path, f"it was trained on another embedding model. {RETRAIN}")
            self._topics = await open_topic_model(self._embedder, self.taxonomy)
        return self._topics


def centred(vectors: Vectors, middle: Vectors) -> Numbers:
    moved = (vectors - middle).astype(float)
    result: Numbers = moved / np.maximum(np.linalg.norm(moved, axis=1, keepdims=True), 1e-9)
    return result


async def fingerprint(embedder: Embedder) -> str:
    """Return a name for an embedder, made of its vector for one sentence: other weights have another name."""
    (vector,) = await embedder.embed([PROBE])
    strongest = np.argsort(-np.abs(vector), kind="stable")[:4]
    return f"{embedder.name}:{embedder.dimensions}:" + "-".join(map(str, strongest))


def label_priors(
    topics: TopicModel,
    labels: Sequence[str],
    known: Mapping[str, Sequence[str]],
    vectors: Vectors,
    texts: Sequence[str],
    *,
    exclusive: bool,
) -> Numbers:
    """Return a logit for each label, from the topics that stand for it; after them one for "no topic", if labels
    exclude each other. A label without topics gets what the others get on average."""
    described = [label for label in labels if known.get(label)]
    prior = np.zeros((len(texts), len(labels) + exclusive))
    if not described:
        return prior
    shares, nothing = topics.log_shares(vectors, texts, [known[label] for label in described])
    if not exclusive:
        shares = shares - np.log(np.maximum(1 - np.exp(shares), 1e-6))
    place = {label: column for column, label in enumerate(described)}
    neutral = shares.mean(axis=1)
    for column, label in enumerate(labels):
        prior[:, column] = shares[:, place[label]] if label in place else neutral
    if exclusive:
        prior[:, -1] = nothing
    return prior
