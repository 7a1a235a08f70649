"""Zero-shot classification with a DeBERTa model: a tiny one, with random weights."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rowmill as rm
from rowmill_systems.articles.classifying import deberta, mdeberta
from rowmill_systems.articles.classifying.deberta import DebertaModel, bucketed
from rowmill_systems.articles.classifying.mdeberta import MdebertaClassifier, hypothesis
from rowmill_systems.articles.classifying.port import ArticleText
from rowmill_systems.articles.classifying.taxonomy import Taxonomy, load_taxonomy
from rowmill_systems.articles.classifying.texts import ArticleUnreadable
from systems.tests.articles.classifying.conftest import FOLDER
from systems.tests.articles.classifying.tiny_deberta import CONFIG, write_tiny

SEQUENCES = [[1, 7, 9, 12, 2, 5, 4, 2], [1, *range(5, 50), 2, 20, 21, 4, 2], [1, 55, 2, 56, 4, 2]]
OTHER = {"share_att_key": False, "position_buckets": -1, "norm_rel_ebd": "none", "position_biased_input": True,
         "type_vocab_size": 2, "max_relative_positions": 64}  # fmt: skip
# What DebertaV2ForSequenceClassification of transformers 5.23 answers on PyTorch 2.15 with the same weights.
EXPECTED = [[1.293747, 0.598849, 0.564887], [1.047809, 1.034596, -0.624473], [1.408829, 0.796243, -0.477677]]
EXPECTED_OTHER = [[-0.440623, -0.809814, 0.376945], [0.076323, -1.273023, 1.250491], [-0.273324, -1.138124, 0.562825]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("models") / "tiny-mnli")


@pytest.fixture(scope="module")
def four() -> Taxonomy:
    return load_taxonomy(FOLDER / "four.toml")


@pytest.fixture(scope="module")
def classifier(folder: Path, four: Taxonomy) -> MdebertaClassifier:
    return MdebertaClassifier(folder, four)


@pytest.mark.parametrize(("changed", "expected"), [({}, EXPECTED), (OTHER, EXPECTED_OTHER)])
def test_logits_are_those_of_the_reference(changed: dict[str, Any], expected: list[Any], tmp_path: Path) -> None:
    """A9: by the real loading code."""
    found = DebertaModel(write_tiny(tmp_path, CONFIG | changed)).logits(SEQUENCES)

    np.testing.assert_allclose(found, expected, atol=2e-5)


def test_padding_and_batches_change_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = DebertaModel(folder)
    together = model.logits(SEQUENCES)
    monkeypatch.setattr(deberta, "BATCH_TOKENS", 1)

    np.testing.assert_allclose(model.logits(SEQUENCES), together, atol=1e-5)


def test_far_distances_share_buckets() -> None:
    found = bucketed(np.arange(-60, 61), 8, 64)

    assert found[60 - 4 : 60 + 5].tolist() == list(range(-4, 5))
    assert found.min() == -7
    assert found.max() == 7
    assert (np.diff(found) >= 0).all()


async def test_scores_are_entailment_against_contradiction(classifier: MdebertaClassifier, folder: Path) -> None:
    """A9."""
    (answer,) = await classifier.classify_batch([ArticleText("rocket word1")], top_k=4, threshold=0.0)
    assert not isinstance(answer, Exception)
    found = list(answer)

    pair = classifier._tokenizer.encode("rocket word1", "This text is about Sports.").ids
    ((yes, _, no),) = DebertaModel(folder).logits([pair])
    assert {each.topic for each in found} == {"world", "sports", "business", "science-technology"}
    assert {each.topic: each.score for each in found}["sports"] == pytest.approx(1 / (1 + np.exp(no - yes)), abs=1e-4)


async def test_labels_are_found_by_name_wherever_they_are(tmp_path: Path, four: Taxonomy) -> None:
    turned = CONFIG | {"id2label": {"0": "contradiction", "1": "neutral", "2": "ENTAILMENT"}}
    straight = MdebertaClassifier(write_tiny(tmp_path / "a"), four)
    other = MdebertaClassifier(write_tiny(tmp_path / "b", turned), four)

    (one,) = await straight.classify_batch([ArticleText("rocket")], top_k=4, threshold=0.0)
    (two,) = await other.classify_batch([ArticleText("rocket")], top_k=4, threshold=0.0)

    assert not isinstance(one, Exception)
    assert not isinstance(two, Exception)
    scores = {each.topic: each.score for each in two}
    assert all(scores[each.topic] == pytest.approx(1 - each.score, abs=2e-4) for each in one)


async def test_the_article_is_cut_and_the_question_stays_whole(classifier: MdebertaClassifier) -> None:
    encoded = classifier._tokenizer.encode("word1 " * 500, "This text is about tennis.")

    assert len(encoded.ids) == CONFIG["max_position_embeddings"]
    assert encoded.tokens[-3:] == ["tennis", ".", "[SEP]"]
    (found,) = await classifier.classify_batch([ArticleText("word1 " * 5000)], threshold=0.0)
    assert not isinstance(found, Exception)


async def test_bad_articles_harm_no_other(classifier: MdebertaClassifier) -> None:
    given = [ArticleText("rocket"), ArticleText(3), ArticleText(""), ArticleText("\ud800")]  # type: ignore[arg-type]

    found = await classifier.classify_batch(given, threshold=0.0)

    assert found[0] == classifier.classify(title="rocket", threshold=0.0)
    assert isinstance(found[1], ArticleUnreadable)
    assert {each.score for each in found[2]} == {0.0}  # type: ignore[union-attr]
    assert not isinstance(found[3], Exception)
    await classifier.close()


async def test_of_many_topics_only_the_best_groups_are_looked_into(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = load_taxonomy()
    classifier = MdebertaClassifier(folder, ours)
    asked: list[int] = []
    entailed = classifier._entailed

    def counted(pairs: Any) -> Any:
        asked.append(len(pairs))
        return entailed(pairs)

    monkeypatch.setattr(classifier, "_entailed", counted)
    (found,) = await classifier.classify_batch([ArticleText("rocket word3")], top_k=100, threshold=0.0)

    assert not isinstance(found, Exception)
    groups = {each.topic.split(".")[0] for each in found if each.score > 0}
    assert len(groups) == mdeberta.GROUPS_LOOKED_INTO
    assert asked == [len(ours.groups), sum(len(ours.members(group)) for group in groups)]


def test_questions_are_asked_in_the_language_of_the_article() -> None:
    tennis = load_taxonomy().topics["technology.ai"]

    assert hypothesis(tennis, "de-CH") == "In diesem Text geht es um Künstliche Intelligenz."
    assert hypothesis(tennis, "tlh") == hypothesis(tennis, None) == "This text is about Artificial intelligence."


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"model_type": "bert"}, "it is a bert model"),
        ({"conv_kernel_size": 3}, "it has a convolution"),
        ({"hidden_act": "relu"}, "only gelu is supported"),
        ({"id2label": {"0": "yes", "1": "no", "2": "maybe"}}, "it has no label entailment"),
        ({"id2label": {"0": "entailment", "1": "not_entailment"}}, "other labels than the model has"),
        ({"num_hidden_layers": 5}, "lacks deberta.encoder.layer.2"),
        ({"num_hidden_layers": None}, "config.json has no num_hidden_layers"),
    ],
)
def test_a_model_that_can_not_run_is_refused_with_the_reason(
    changed: dict[str, Any], said: str, tmp_path: Path, four: Taxonomy
) -> None:
    write_tiny(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | changed))

    with pytest.raises(rm.errors.DeclarationError, match=said):
        MdebertaClassifier(tmp_path, four)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_files_that_are_missing_or_broken_are_named(name: str, tmp_path: Path, four: Taxonomy) -> None:
    write_tiny(tmp_path)
    (tmp_path / name).write_bytes(b"{not it")
    with pytest.raises(rm.errors.DeclarationError, match="can't be read"):
        MdebertaClassifier(tmp_path, four)

    (tmp_path / name).unlink()
    with pytest.raises(rm.errors.DeclarationError, match=f"{name} is not there"):
        MdebertaClassifier(tmp_path, four)
