"""How well topics fit texts, by their vectors and their words."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from rowmill_systems.articles.classifying.calibration import Calibration, Numbers, load_calibration
from rowmill_systems.articles.classifying.products import product
from rowmill_systems.articles.classifying.taxonomy import ENGLISH, Taxonomy, Topic, load_taxonomy
from rowmill_systems.articles.classifying.texts import WORD, stems
from rowmill_systems.parts.embeddings import Embedder, Vectors

TEMPERATURE = 0.05
"""Of the softmax that compares topics with each other. Chosen, like the numbers below, on texts of ours and on one half
of a public set of news; docs/systems/articles-quality.md has what else was tried."""
WORD_WEIGHT = {ENGLISH: 0.05}
OTHER_WORD_WEIGHT = 0.1
"""What a word in common adds to the cosine. More where the model knows the language less."""
MOST_WORDS = 2.0
SAME = 0.5
"""The least cosine between a topic of ours and one of a team that takes it in."""
BROAD, BROADER_THAN_PARTS = 0.42, 0.8
"""The least cosine between the middle of a group of ours and a topic of a team that takes the group in, and its least
ratio to the cosine of the nearest topic in the group: a narrow topic is near to one of them, and far from the rest."""
CHUNK = 4096
"""Texts that are compared at once: bounds the memory."""


class TopicModel:
    """Compares texts with the descriptions of topics, in the language of the text.

    Vectors are centred first: what all descriptions of a language have in common says nothing about a topic. For
    topics of a team's own, ours help: a broad topic as "sports" is described better by our eighteen kinds of sport than
    by ten words. Each of ours counts for the team's topic that has its name, or means the same, or is as broad as its
    group; or for none.
    """

    def __init__(self, taxonomy: Taxonomy, vectors: Mapping[str, Vectors], calibration: Calibration) -> None:
        """`vectors` has one for each text of `reference_texts(taxonomy)`, by language."""
        shipped = load_taxonomy()
        self.taxonomy, self._calibration = taxonomy, calibration
        self.keys = tuple(taxonomy.topics)
        self.languages = tuple(vectors)
        self._middle: dict[str, Vectors] = {}
        self._topics: dict[str, Vectors] = {}
        self._nothing: dict[str, Vectors] = {}
        self._words: dict[str, dict[str, list[tuple[int, float]]]] = {}
        compared = _compared(taxonomy)
        ours = len(shipped.topics)
        for language, found in vectors.items():
            topics, nothing = found[: len(compared)], found[len(compared) :]
            # The centre is that of our topics: a team may have three, which are no sample of anything.
            self._middle[language] = topics[:ours].mean(axis=0)
            self._topics[language] = _unit(topics - self._middle[language])
            self._nothing[language] = _unit(nothing - self._middle[language])
            self._words[language] = _word_weights([_text(topic, language) for topic in compared])
        self._members = self._find_members(compared)

    def _find_members(self, compared: Sequence[Topic]) -> Numbers:
        """Return which of the compared topics count for which topic of the taxonomy."""
        shipped = load_taxonomy()
        members = np.zeros((len(compared), len(self.keys)))
        if self.taxonomy.digest == shipped.digest:
            np.fill_diagonal(members, 1)
            return members
        ours = list(shipped.topics)
        own = list(self.taxonomy.topics.values())
        members[len(ours) :] = np.eye(len(own))
        language = ENGLISH if ENGLISH in self._topics else self.languages[0]
        vectors = self._topics[language]
        alike = vectors[: len(ours)] @ vectors[len(ours) :].T
        # A topic that says what it includes takes in nothing else.
        settled = [bool(topic.includes) for topic in own]
        alike[:, settled] = -1
        named: dict[str, int] = {}
        for place, topic in enumerate(own):
            for name in () if topic.includes else (topic.key, *topic.labels.values()):
                named |= dict.fromkeys(shipped.find(name), place)
        for place, topic in enumerate(own):
            named |= {key: place for name in topic.includes for key in shipped.members(name)}
        for group in shipped.groups:
            rows = [row for row, key in enumerate(ours) if key.startswith(f"{group}.")]
            (middle,) = _unit(vectors[rows].mean(axis=0, keepdims=True)) @ vectors[len(ours) :].T
            middle[(alike[rows].max(axis=0) * BROADER_THAN_PARTS > middle) | settled] = -1
            broad = int(middle.argmax()) if middle.max() >= BROAD else None
            for row in rows:
                nearest = int(alike[row].argmax())
                taken = named.get(ours[row], nearest if alike[row, nearest] >= SAME else broad)
                if taken is not None:
                    members[row, taken] = 1
        return members

    def language_of(self, vectors: Vectors) -> npt.NDArray[np.int64]:
        """Return the place of the nearest language for each vector: those of a language lie together."""
        middles = np.stack([self._middle[language] for language in self.languages])
        distances = (middles * middles).sum(axis=1)[None, :] - 2 * product(vectors, middles.T)
        found: npt.NDArray[np.int64] = distances.argmin(axis=1)
        return found

    def probabilities(
        self, vectors: Vectors, texts: Sequence[str], languages: Sequence[str | None] | None = None
    ) -> Numbers:
        """Return how likely it is that a topic fits: a row for each text, a column for each of `keys`. A text without a
        vector has no topic. `languages` are what is known of them."""
        result = np.zeros((len(texts), len(self.keys)))
        for rows, similarity, log_share in self._evidence(vectors, texts, languages):
            words = np.array([len(WORD.findall(texts[row])) for row in rows])
            fits = self._calibration.probabilities(similarity, log_share, words)
            # A topic fits if one of its parts does: parts are taken as independent.
            result[rows] = 1 - np.exp(np.log1p(-np.minimum(fits, 1 - 1e-9)) @ self._members)
        result[~vectors.any(axis=1)] = 0
        return result

    def evidence(
        self, vectors: Vectors, texts: Sequence[str], languages: Sequence[str | None] | None = None
    ) -> tuple[Numbers, Numbers]:
        """Return, for texts and the topics that are compared, the similarity and the logarithm of the share that each
        topic has among all: what the calibration is fitted on."""
        size = (len(texts), len(self._members))
        similarities, shares = np.zeros(size), np.zeros(size)
        for rows, similarity, log_share in self._evidence(vectors, texts, languages):
            similarities[rows], shares[rows] = similarity, log_share
        return similarities, shares

    def log_shares(
        self, vectors: Vectors, texts: Sequence[str], classes: Sequence[Sequence[str]]
    ) -> tuple[Numbers, Numbers]:
        """Return the logarithm of the share of each class, a list of topics of the taxonomy, among all topics; and that
        of no topic."""
        columns = [np.isin(self.keys, list(topics)) for topics in classes]
        parts = np.stack([self._members[:, wanted].any(axis=1) for wanted in columns], axis=1)
        _, shares = self.evidence(vectors, texts)
        given = np.exp(shares)
        nothing = np.maximum(1 - given.sum(axis=1), 1e-6)
        return np.log(np.maximum(given @ parts, 1e-6)), np.log(nothing)

    def _evidence(
        self, vectors: Vectors, texts: Sequence[str], languages: Sequence[str | None] | None
    ) -> Iterator[tuple[npt.NDArray[np.int64], Numbers, Numbers]]:
        spoken = self.language_of(vectors) if len(texts) else np.zeros(0, np.int64)
        if languages is not None and len(self.languages) > 1:
            known = {language: place for place, language in enumerate(self.languages)}
            for row, language in enumerate(languages):
                spoken[row] = known.get((language or "").split("-")[0].split("_")[0].casefold(), spoken[row])
        for place, language in enumerate(self.languages):
            there = np.flatnonzero(spoken == place)
            for start in range(0, len(there), CHUNK):
                rows = there[start : start + CHUNK]
                yield rows, *self._compare(vectors[rows], [texts[row] for row in rows], language)

    def _compare(self, vectors: Vectors, texts: Sequence[str], language: str) -> tuple[Numbers, Numbers]:
        centred = _unit(vectors - self._middle[language])
        shared = self._words_in_common(texts, self._words[language], len(self._members))
        weight = WORD_WEIGHT.get(language, OTHER_WORD_WEIGHT)
        similarity = product(centred, self._topics[language].T).astype(float) + weight * np.minimum(shared, MOST_WORDS)
        rivals = np.hstack([similarity, product(centred, self._nothing[language].T)]) / TEMPERATURE
        highest = rivals.max(axis=1, keepdims=True)
        total = highest + np.log(np.exp(rivals - highest).sum(axis=1, keepdims=True))
        return similarity, similarity / TEMPERATURE - total

    @staticmethod
    def _words_in_common(texts: Sequence[str], weights: Mapping[str, list[tuple[int, float]]], width: int) -> Numbers:
        shared = np.zeros((len(texts), width))
        for row, text in enumerate(texts):
            for stem in stems(text) & weights.keys():
                for topic, weight in weights[stem]:
                    shared[row, topic] += weight
        return shared


def reference_texts(taxonomy: Taxonomy) -> dict[str, list[str]]:
    """Return what has to be embedded, by language: the compared topics, then the texts without a topic."""
    shipped = load_taxonomy()
    languages = taxonomy.languages
    nothing = [*shipped.no_topic, *(text for text in taxonomy.no_topic if text not in shipped.no_topic)]
    compared = _compared(taxonomy)
    return {language: [*(_text(topic, language) for topic in compared), *nothing] for language in languages}


async def open_topic_model(embedder: Embedder, taxonomy: Taxonomy) -> TopicModel:
    """Embed the topics."""
    vectors = {language: await embedder.embed(texts) for language, texts in reference_texts(taxonomy).items()}
    return TopicModel(taxonomy, vectors, load_calibration())


def _compared(taxonomy: Taxonomy) -> list[Topic]:
    """Return our topics, and after them those of a team's own."""
    shipped = load_taxonomy()
    own = [] if taxonomy.digest == shipped.digest else list(taxonomy.topics.values())
    return [*shipped.topics.values(), *own]


def _text(topic: Topic, language: str) -> str:
    return topic.text(language) or topic.text(ENGLISH) or next(iter(topic.descriptions.values()))


def _word_weights(texts: Sequence[str]) -> dict[str, list[tuple[int, float]]]:
    """Return, for each stem, the topics that have it; the more of them, the less it says."""
    topics: dict[str, list[int]] = {}
    for place, text in enumerate(texts):
        for stem in stems(text):
            topics.setdefault(stem, []).append(place)
    return {stem: [(place, 1 / len(places)) for place in places] for stem, places in topics.items()}


def _unit(vectors: Vectors) -> Vectors:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    result: Vectors = vectors / np.maximum(lengths, 1e-9)
    return result
