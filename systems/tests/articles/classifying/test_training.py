"""A model with a team's own labels."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import rowmill as rm
from rowmill_systems.articles.classifying.labelled import LabelledArticle
from rowmill_systems.articles.classifying.port import ArticleText
from rowmill_systems.articles.classifying.regression import Examples, fit, minimise
from rowmill_systems.articles.classifying.taxonomy import load_taxonomy
from rowmill_systems.articles.classifying.trained import TrainedClassifier, TrainedModel, load_trained
from rowmill_systems.articles.classifying.training import TooFewLabels, train, without_rare
from rowmill_systems.articles.classifying.word_features import HashedWords, word_ids
from rowmill_systems.parts.embeddings import Embedder, Vectors
from systems.tests.articles.classifying.conftest import FOLDER
from tools.articles_quality import examples

GROUPS = ("sport", "business", "technology", "culture")


def labelled(*groups: str, several: bool = False) -> list[LabelledArticle]:
    """Our examples, with the groups of their topics as labels."""
    found = []
    for line, (_, topics, text) in enumerate(examples()):
        labels = tuple(dict.fromkeys(topic.split(".")[0] for topic in topics if topic.split(".")[0] in groups))
        if labels and (several or len(labels) == 1):
            title, _, rest = text.partition(". ")
            found.append(LabelledArticle(line, ArticleText(title, rest), labels))
    return found


def known(*groups: str) -> dict[str, tuple[str, ...]]:
    return {group: load_taxonomy().members(group) for group in groups}


async def accuracy(classifier: TrainedClassifier, articles: Sequence[LabelledArticle]) -> float:
    found = await classifier.classify_batch([each.article for each in articles], top_k=1, threshold=0.0)
    return float(np.mean([each[0].topic in own.labels for each, own in zip(found, articles, strict=True)]))  # type: ignore[index]


def opened(model: TrainedModel, embedder: Embedder) -> TrainedClassifier:
    return TrainedClassifier(embedder, load_taxonomy(), model, Path("model.npz"))


@pytest.fixture(scope="module")
def halves() -> tuple[list[LabelledArticle], list[LabelledArticle]]:
    articles = labelled(*GROUPS)
    return articles[::2], articles[1::2]


async def test_it_learns_labels_and_says_how_well(
    halves: tuple[list[LabelledArticle], list[LabelledArticle]], embedder: Embedder
) -> None:
    seen, unseen = halves

    model, report = await train(seen, embedder, topics=known(*GROUPS))

    assert await accuracy(opened(model, embedder), unseen) > 0.85
    assert report.articles == len(seen)
    assert set(report.labels) == set(GROUPS)
    assert report.accuracy > 0.85
    assert report.exclusive


async def test_few_labels_are_not_worse_than_none(
    halves: tuple[list[LabelledArticle], list[LabelledArticle]], embedder: Embedder
) -> None:
    seen, unseen = halves
    few = [each for group in GROUPS for each in [x for x in seen if x.labels == (group,)][:5]]

    with_prior, report = await train(few, embedder, topics=known(*GROUPS))
    without, _ = await train(few, embedder)

    assert report.prior_weight > 0
    assert await accuracy(opened(with_prior, embedder), unseen) >= 0.85
    assert await accuracy(opened(with_prior, embedder), unseen) > await accuracy(opened(without, embedder), unseen)


async def test_labels_without_a_topic_are_learned_from_articles_alone(embedder: Embedder) -> None:
    articles = labelled("sport", "culture")
    renamed = [
        LabelledArticle(each.line, each.article, tuple({"sport": "alpha", "culture": "beta"}[x] for x in each.labels))
        for each in articles
    ]

    model, report = await train(renamed, embedder)

    assert report.described == ()
    assert report.prior_accuracy is None
    assert await accuracy(opened(model, embedder), renamed) > 0.95


async def test_articles_with_several_labels_get_several(embedder: Embedder) -> None:
    articles = labelled("sport", "business", "technology", several=True)

    model, report = await train(articles, embedder, topics=known("sport", "business", "technology"))
    classifier = opened(model, embedder)
    (both,) = await classifier.classify_batch(
        [ArticleText("Stocks of chip makers slide", "The processor company cuts its sales outlook")]
    )

    assert not report.exclusive
    assert not isinstance(both, Exception)
    assert {each.topic for each in both} == {"business", "technology"}
    assert classifier.classify(title="lorem ipsum dolor sit amet") == ()


@pytest.mark.parametrize(
    "text", ["", "lorem ipsum dolor sit amet consectetur", "qwpo zmxn alsk djfh", "Page not found"]
)
async def test_no_topic_is_an_answer(
    text: str, halves: tuple[list[LabelledArticle], list[LabelledArticle]], embedder: Embedder
) -> None:
    model, _ = await train(halves[0], embedder, topics=known(*GROUPS))

    assert opened(model, embedder).classify(title=text) == ()


async def test_a_bad_article_harms_no_other(
    halves: tuple[list[LabelledArticle], list[LabelledArticle]], embedder: Embedder
) -> None:
    model, _ = await train(halves[0], embedder, topics=known(*GROUPS))

    found = await opened(model, embedder).classify_batch(
        [ArticleText("Tennis final at Wimbledon"), ArticleText(1), ArticleText("\ud800" * 5), ArticleText("x" * 10**6)]  # type: ignore[arg-type]
    )

    assert found[0][0].topic == "sport"  # type: ignore[index]
    assert [isinstance(each, Exception) for each in found] == [False, True, False, False]


async def test_a_saved_model_answers_the_same_and_has_no_text_in_it(
    halves: tuple[list[LabelledArticle], list[LabelledArticle]], embedder: Embedder, tmp_path: Path
) -> None:
    model, _ = await train(halves[0], embedder, topics=known(*GROUPS))
    file = tmp_path / "topics.npz"

    model.save(file)
    again = load_trained(file)

    assert os.listdir(tmp_path) == ["topics.npz"]
    for article in halves[1][:5]:
        given = {"title": article.article.title, "threshold": 0.0}
        one, other = opened(model, embedder).classify(**given), opened(again, embedder).classify(**given)  # type: ignore[arg-type]
        assert [each.topic for each in one] == [each.topic for each in other]
        assert [each.score for each in one] == pytest.approx([each.score for each in other], abs=1e-3)
    with np.load(file, allow_pickle=False) as arrays:
        assert b"Wimbledon" not in b"".join(arrays[name].tobytes() for name in arrays.files)


@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x03\x04 cut off"])
def test_a_file_that_is_no_model_is_refused(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "topics.npz"
    file.write_bytes(content)

    with pytest.raises(rm.errors.DeclarationError, match=r"topics\.npz.*\n.*Run: rowmill systems articles train"):
        load_trained(file)


def test_a_pickle_is_not_opened(tmp_path: Path) -> None:
    np.savez(tmp_path / "topics.npz", about=np.array([{"version": 1}], object))

    with pytest.raises(rm.errors.DeclarationError, match="not a file that train wrote"):
        load_trained(tmp_path / "topics.npz")


class OtherEmbedder:
    """The same name, other weights."""

    def __init__(self, embedder: Embedder) -> None:
        self.name, self.dimensions, self._embedder = embedder.name, embedder.dimensions, embedder

    async def embed(self, texts: Sequence[str]) -> Vectors:
        return (await self._embedder.embed(texts))[:, ::-1].copy()

    async def close(self) -> None:
        pass


async def test_a_model_of_another_embedder_or_taxonomy_is_refused(
    halves: tuple[list[LabelledArticle], list[LabelledArticle]], embedder: Embedder
) -> None:
    model, _ = await train(halves[0], embedder, topics=known(*GROUPS))

    with pytest.raises(rm.errors.DeclarationError, match="trained on another embedding model"):
        opened(model, OtherEmbedder(embedder)).classify(title="x")
    with pytest.raises(rm.errors.DeclarationError, match="trained with another taxonomy"):
        TrainedClassifier(embedder, load_taxonomy(FOLDER / "four.toml"), model, Path("model.npz"))


async def test_too_few_labels_are_refused_with_their_names(embedder: Embedder) -> None:
    sport = labelled("sport")
    food = labelled("food")[:2]

    with pytest.raises(
        TooFewLabels, match=r"Too few have: food \(2\)\. Label more, or leave these out with --drop-rare"
    ):
        await train([*sport, *food], embedder)
    with pytest.raises(TooFewLabels, match="there are 1 different labels"):
        await train(sport, embedder)
    kept, rare = without_rare([*sport, *food])
    assert (len(kept), rare) == (len(sport), ["food"])


def test_minimising_finds_the_lowest_point() -> None:
    middle = np.array([3.0, -2.0, 0.5])
    steep = np.array([1.0, 100.0, 0.1])

    found = minimise(
        lambda point: (float((steep * (point - middle) ** 2).sum()), 2 * steep * (point - middle)), np.zeros(3)
    )

    assert found == pytest.approx(middle, abs=0.05)


@pytest.mark.parametrize("exclusive", [True, False])
def test_the_slope_is_that_of_the_loss(exclusive: bool) -> None:
    """A weak regularisation separates what can be separated, a strong one learns nothing but the shares of classes."""
    words = [word_ids(ArticleText(text)) for text in ("red ball", "red box", "blue ball", "blue box")] * 5
    truth = np.eye(2)[[0, 0, 1, 1] * 5]
    sparse = HashedWords.of(words).rows(words)
    given = Examples(np.zeros((20, 1)), sparse, truth)

    weak = fit(given, 1e-3, exclusive=exclusive).logits(given.dense, sparse)
    strong = fit(given, 1e6, exclusive=exclusive).logits(given.dense, sparse)

    assert (weak.argmax(axis=1) == truth.argmax(axis=1)).all()
    assert np.abs(strong[:, 0] - strong[:, 1]).max() < 1e-3


def test_words_of_titles_pairs_and_unspaced_scripts_count() -> None:
    title, text = word_ids(ArticleText("red ball")), word_ids(ArticleText("", "red ball"))

    assert set(text) < set(title)
    assert len(text) == 3
    assert len(word_ids(ArticleText("", "今日は天気"))) == 7
