"""Which classifier the settings open."""

from pathlib import Path
from typing import Any

import pytest

import rowmill as rm
from rowmill_systems.articles.classifying.embedding import EmbeddingClassifier
from rowmill_systems.articles.classifying.mdeberta import MdebertaClassifier
from rowmill_systems.articles.classifying.open import open_classifier
from rowmill_systems.articles.settings import ArticlesSettings
from systems.tests.articles.classifying.conftest import FOLDER
from systems.tests.articles.classifying.tiny_deberta import write_tiny


def test_the_small_model_is_the_default_with_our_topics_or_others() -> None:
    """A9."""
    ours, four = (open_classifier(ArticlesSettings(taxonomy=file), None) for file in (None, FOLDER / "four.toml"))

    assert isinstance(ours, EmbeddingClassifier)
    assert isinstance(four, EmbeddingClassifier)
    assert ours.name != four.name
    assert list(four.taxonomy.topics) == ["world", "sports", "business", "science-technology"]


def test_mdeberta_is_opened_from_its_folder(tmp_path: Path) -> None:
    """A9."""
    found = open_classifier(ArticlesSettings(classifier="mdeberta", mdeberta_path=write_tiny(tmp_path)), None)

    assert isinstance(found, MdebertaClassifier)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"classifier": "mdeberta"}, "ARTICLES_MDEBERTA_PATH"),
        ({"classifier": "endpoint"}, "ARTICLES_ENDPOINT_URL"),
        (
            {"classifier": "endpoint", "endpoint_url": "http://127.0.0.1:1/v1", "endpoint_model": "m"},
            "needs a database",
        ),
        ({"classifier": "endpoint", "trained_model": Path("x")}, "trained_model is on top of wordllama"),
        ({"trained_model": Path("none.npz")}, "it can't be read"),
        ({"taxonomy": Path("none.toml")}, "it can't be read"),
    ],
)
def test_settings_that_do_not_fit_are_refused_with_the_fix(given: dict[str, Any], said: str) -> None:
    """A9."""
    with pytest.raises(rm.errors.DeclarationError, match=said):
        open_classifier(ArticlesSettings(**given), None)
