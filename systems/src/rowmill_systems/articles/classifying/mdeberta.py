"""Find topics by zero-shot classification: does the article entail "This text is about tennis"?"""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

import rowmill as rm
from rowmill_systems.articles.classifying.calibration import Numbers, sigmoid
from rowmill_systems.articles.classifying.deberta import DebertaModel, is_entailment
from rowmill_systems.articles.classifying.local import LocalClassifier
from rowmill_systems.articles.classifying.port import ArticleText
from rowmill_systems.articles.classifying.taxonomy import ENGLISH, Taxonomy, Topic

HYPOTHESES = {
    ENGLISH: "This text is about {}.",
    "de": "In diesem Text geht es um {}.",
    "fr": "Ce texte parle de {}.",
    "es": "Este texto trata de {}.",
    "it": "Questo testo parla di {}.",
    "pt": "Este texto é sobre {}.",
    "nl": "Deze tekst gaat over {}.",
    "ru": "Этот текст о теме: {}.",
    "zh": "这段文字是关于{}的。",
}
MOST_AT_ONCE = 24
"""Topics that are all asked for. Of more, groups are asked for first: a pass of the model is costly."""
GROUPS_LOOKED_INTO = 3


class MdebertaClassifier(LocalClassifier):
    """A Classifier on a DeBERTa model for natural language inference, in a local folder. It needs no labels.

    A score is the probability of entailment against contradiction, each topic for itself. If the taxonomy has many
    topics, the best groups are found first, then the topics in them.
    """

    def __init__(self, folder: Path, taxonomy: Taxonomy) -> None:
        """Raises DeclarationError if the folder has no such model."""
        self._model = DebertaModel(folder)
        try:
            self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as error:  # the library raises bare exceptions
            raise rm.errors.DeclarationError(
                str(folder), ["tokenizer.json can't be read. Download it again"], "model"
            ) from error
        self._tokenizer.no_padding()
        # The longer one is cut: the article, as the question is short.
        self._tokenizer.enable_truncation(self._model.max_tokens, strategy="longest_first")
        self.taxonomy = taxonomy
        self.name = f"{folder.name}/{taxonomy.digest}"
        labels = self._model.labels
        self._yes = next(place for place, label in labels.items() if is_entailment(label))
        against = [place for place, label in labels.items() if label.casefold().startswith("contradict")]
        self._no = against or [place for place in labels if place != self._yes]
        self._busy = threading.Lock()

    async def open_topics(self) -> Sequence[str]:
        return tuple(self.taxonomy.topics)

    async def chances(self, texts: Sequence[str], articles: Sequence[ArticleText]) -> Numbers:
        return await asyncio.to_thread(self._chances, texts, [article.language for article in articles])

    def _chances(self, texts: Sequence[str], languages: Sequence[str | None]) -> Numbers:
        """Return how likely it is that a topic fits: a row for each text, a column for each topic."""
        topics = list(self.taxonomy.topics.values())
        chances = np.zeros((len(texts), len(topics)))
        written = [row for row, text in enumerate(texts) if text.strip()]
        wanted: dict[int, Sequence[int]] = {row: range(len(topics)) for row in written}
        if len(topics) > MOST_AT_ONCE and self.taxonomy.groups:
            wanted = self._in_best_groups(texts, languages, written)
        pairs = [(row, column) for row, columns in wanted.items() for column in columns]
        asked = [(texts[row], hypothesis(topics[column], languages[row])) for row, column in pairs]
        for (row, column), chance in zip(pairs, self._entailed(asked), strict=True):
            chances[row, column] = chance
        return chances

    def _in_best_groups(
        self, texts: Sequence[str], languages: Sequence[str | None], rows: Sequence[int]
    ) -> dict[int, Sequence[int]]:
        """Return, for each text, the topics of its best groups. Topics without a group are always among them."""
        groups = list(self.taxonomy.groups.values())
        asked = [(texts[row], hypothesis(group, languages[row])) for row in rows for group in groups]
        chances = self._entailed(asked).reshape(len(rows), len(groups))
        place = {key: column for column, key in enumerate(self.taxonomy.topics)}
        alone = [column for key, column in place.items() if key not in self.taxonomy.groups and "." not in key]
        found: dict[int, Sequence[int]] = {}
        for row, scores in zip(rows, chances, strict=True):
            best = [groups[group].key for group in np.argsort(-scores, kind="stable")[:GROUPS_LOOKED_INTO]]
            found[row] = alone + [place[key] for group in best for key in self.taxonomy.members(group)]
        return found

    def _entailed(self, pairs: Sequence[tuple[str, str]]) -> Numbers:
        """Return how likely the first text of each pair entails the second."""
        if not pairs:
            return np.zeros(0)
        encoded = [tokens.ids for tokens in self._tokenizer.encode_batch(list(pairs))]
        with self._busy:  # two passes at once take twice the memory and no less time
            logits = self._model.logits(encoded).astype(float)
        against = np.log(np.exp(logits[:, self._no]).sum(axis=1))
        return sigmoid(logits[:, self._yes] - against)


def hypothesis(topic: Topic, language: str | None) -> str:
    """Return what is asked of a text, in its language if topic and template have it; otherwise in English."""
    spoken = (language or ENGLISH).split("-")[0].casefold()
    if spoken not in HYPOTHESES or spoken not in topic.labels:
        spoken = ENGLISH
    return HYPOTHESES[spoken].format(topic.label(spoken))
