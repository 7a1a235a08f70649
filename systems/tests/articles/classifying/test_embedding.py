"""The classifier that needs no labels."""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rowmill_systems.articles.classifying.calibration import calibration_bins, calibration_error
from rowmill_systems.articles.classifying.embedding import EmbeddingClassifier
from rowmill_systems.articles.classifying.port import ArticleText, Topics
from rowmill_systems.articles.classifying.taxonomy import load_taxonomy
from rowmill_systems.articles.classifying.texts import MOST_CHARACTERS, ArticleUnreadable
from rowmill_systems.articles.classifying.topic_model import TopicModel
from rowmill_systems.parts.embeddings import Embedder, Vectors
from systems.tests.articles.classifying.conftest import FOLDER
from tools.articles_quality import examples

LEAST_RIGHT = {"en": 0.85, "de": 0.7, "fr": 0.7, "es": 0.6, "it": 0.7}


class CountingEmbedder:
    """Counts calls, and fails for a text with a word in it."""

    def __init__(self, embedder: Embedder, bad: str = "") -> None:
        self.name, self.dimensions, self._embedder, self._bad = embedder.name, embedder.dimensions, embedder, bad
        self.calls: list[int] = []

    async def embed(self, texts: Sequence[str]) -> Vectors:
        self.calls.append(len(texts))
        if self._bad and any(self._bad in text for text in texts):
            raise ValueError("planted")
        return await self._embedder.embed(texts)

    async def close(self) -> None:
        raise AssertionError("others share it")


async def topics_of(classifier: EmbeddingClassifier, *texts: Any, **options: Any) -> list[Topics | Exception]:
    return await classifier.classify_batch([ArticleText(text) for text in texts], **options)


def keys(found: Topics | Exception) -> list[str]:
    assert not isinstance(found, Exception)
    return [each.topic for each in found]


@pytest.mark.parametrize("language", LEAST_RIGHT)
async def test_the_best_topic_is_right_in_five_languages(language: str, classifier: EmbeddingClassifier) -> None:
    """A9: offline, on a CPU, by a model in a package."""
    given = [(topics, text) for own, topics, text in examples() if own == language and topics]

    found = await topics_of(classifier, *(text for _, text in given), top_k=1, threshold=0.0)

    right = [keys(each)[0] in topics for each, (topics, _) in zip(found, given, strict=True)]
    assert sum(right) / len(right) >= LEAST_RIGHT[language]


async def test_a_score_is_a_probability(classifier: EmbeddingClassifier) -> None:
    given = examples()
    found = await topics_of(classifier, *(text for *_, text in given), top_k=1, threshold=0.0)
    scores = [each[0].score if not isinstance(each, Exception) and each else 0.0 for each in found]
    right = [bool(each) and keys(each)[0] in topics for each, (_, topics, _) in zip(found, given, strict=True)]

    assert calibration_error(calibration_bins(scores, right)) < 0.08


@pytest.mark.parametrize(
    "text",
    ["", "   ", "\n\t", "lorem ipsum dolor sit amet, consectetur adipiscing elit", "sdkfjh wieury skdjfh xcvmn", "????",
     "Page not found", "12345 67890", "Read more", "\ud800", "\0\0\0", "a" * 1_000_000],
)  # fmt: skip
async def test_no_topic_is_an_answer(text: str, classifier: EmbeddingClassifier) -> None:
    """A9."""
    assert await topics_of(classifier, text) == [()]


async def test_an_article_may_have_several_topics(classifier: EmbeddingClassifier) -> None:
    (found,) = await topics_of(
        classifier,
        "Hackers steal passwords: the security flaw is in the software of mobile phones, smartphone makers say",
    )

    assert {"technology.security", "technology.mobile"} <= set(keys(found))


async def test_the_best_come_first_and_the_rest_is_cut(classifier: EmbeddingClassifier) -> None:
    """A9: top_k and threshold."""
    text = "Tennis, golf, cricket and rugby"
    (all_of_them,) = await topics_of(classifier, text, top_k=100, threshold=0.0)
    (best,) = await topics_of(classifier, text, top_k=2, threshold=0.0)
    assert not isinstance(all_of_them, Exception)
    limit = all_of_them[2].score
    (above,) = await topics_of(classifier, text, top_k=100, threshold=limit - 0.0001)

    assert len(all_of_them) == len(classifier.taxonomy.topics)
    assert list(all_of_them) == sorted(all_of_them, key=lambda each: -each.score)
    assert best == all_of_them[:2]
    assert above == tuple(each for each in all_of_them if each.score >= limit)


async def test_a_bad_article_harms_no_other(classifier: EmbeddingClassifier) -> None:
    odd: list[Any] = [
        ArticleText("Rocket launch to the moon"), ArticleText(None), ArticleText("x", 7),  # type: ignore[arg-type]
        None, ArticleText("tennis \ud800 final at Wimbledon"), ArticleText("word " * 300_000),
        ArticleText("Election day"),
    ]  # fmt: skip

    found = await classifier.classify_batch(odd)

    assert [isinstance(each, ArticleUnreadable) for each in found] == [False, True, True, True, False, False, False]
    assert keys(found[0])[0] == "science.space"
    assert keys(found[4])[0] == "sport.tennis"
    assert keys(found[6])[0] == "politics.elections"


async def test_a_batch_is_one_call_of_the_model(embedder: Embedder) -> None:
    """A4, A9."""
    counting = CountingEmbedder(embedder)
    classifier = EmbeddingClassifier(counting, load_taxonomy())
    await classifier.topic_model()
    counting.calls.clear()

    await topics_of(classifier, *["Rocket launch"] * 25)
    await classifier.close()

    assert counting.calls == [25]


async def test_the_model_runs_beside_the_event_loop(
    classifier: EmbeddingClassifier, embedder: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A4: both halves of it, in threads."""
    ran: dict[str, int] = {}
    for kind, name in ((type(embedder), "_embed"), (TopicModel, "probabilities")):
        real = getattr(kind, name)

        def noted(*given: Any, real: Any = real, name: str = name) -> Any:
            ran[name] = threading.get_ident()
            return real(*given)

        monkeypatch.setattr(kind, name, noted)

    await topics_of(classifier, "Rocket launch")

    assert set(ran) == {"_embed", "probabilities"}
    assert threading.get_ident() not in ran.values()


async def test_an_article_that_the_model_fails_on_is_found_by_halves(embedder: Embedder) -> None:
    classifier = EmbeddingClassifier(CountingEmbedder(embedder, bad="poison"), load_taxonomy())

    found = await topics_of(classifier, "Rocket launch", "poison", "Tennis final", "Election day")

    assert isinstance(found[1], ValueError)
    assert [keys(found[place])[0] for place in (0, 2, 3)] == ["science.space", "sport.tennis", "politics.elections"]


async def test_an_empty_batch_is_empty(classifier: EmbeddingClassifier) -> None:
    assert await classifier.classify_batch([]) == []


async def test_one_article_can_be_classified_without_a_loop_and_beside_one(classifier: EmbeddingClassifier) -> None:
    """A4+, A9: `classify(title=, description=)`."""
    beside = classifier.classify(title="Tennis final at Wimbledon", description="She won in three sets.")
    without = await asyncio.to_thread(classifier.classify, title="Tennis final at Wimbledon", top_k=1)

    assert beside[0].topic == without[0].topic == "sport.tennis"
    with pytest.raises(ArticleUnreadable):
        classifier.classify(title=None)  # type: ignore[arg-type]


async def test_only_the_beginning_of_a_long_article_counts(classifier: EmbeddingClassifier) -> None:
    start = "Tennis final at Wimbledon. " * (MOST_CHARACTERS // 27 + 1)

    short, long = await topics_of(classifier, start, start + "Rocket launch to the moon. " * 1000)

    assert short == long


async def test_the_language_of_an_article_may_be_told(classifier: EmbeddingClassifier) -> None:
    told, unknown = await classifier.classify_batch(
        [ArticleText("Erdbeben", language="de-AT"), ArticleText("Erdbeben", language="tlh")]
    )

    assert keys(told) == ["world.disasters"]
    assert not isinstance(unknown, Exception)


BROAD = {"Rocket launch to the moon": "science-technology", "Tennis final at Wimbledon": "sports",
         "Shares fall on Wall Street": "business", "Troops cross the border, dozens killed": "world"}  # fmt: skip


async def test_broad_topics_of_a_team_take_in_ours(embedder: Embedder) -> None:
    classifier = EmbeddingClassifier(embedder, load_taxonomy(FOLDER / "four.toml"))

    found = await topics_of(classifier, *BROAD, "Fry the onions in butter and add the mushrooms", top_k=1)

    assert [keys(each) for each in found] == [[topic] for topic in BROAD.values()] + [[]]


async def test_narrow_topics_of_a_team_take_in_nothing_else(embedder: Embedder, tmp_path: Path) -> None:
    file = tmp_path / "narrow.toml"
    file.write_text(
        '[topics.wind]\ndescription = "wind farm, turbines, offshore wind, blades"\n'
        '[topics.bread]\ndescription = "bread baking, sourdough, flour, yeast, loaves"\n'
        '[topics.any-sport]\ndescription = "all kinds of matches"\nincludes = ["sport"]\n'
    )
    classifier = EmbeddingClassifier(embedder, load_taxonomy(file))

    found = await topics_of(
        classifier, "Sourdough bread needs flour, water and patience", "New turbines for the offshore wind farm",
        "Tennis final at Wimbledon", "Rangers protect wolves and other wildlife", "This soup needs garlic and onions",
    )  # fmt: skip

    assert [keys(each) for each in found] == [["bread"], ["wind"], ["any-sport"], [], []]
