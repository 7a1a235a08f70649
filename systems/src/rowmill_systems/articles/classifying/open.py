"""Open the classifier that the settings name."""

from typing import assert_never

import rowmill as rm
from rowmill_systems.articles.classifying.port import Classifier
from rowmill_systems.articles.classifying.taxonomy import load_taxonomy
from rowmill_systems.articles.settings import ArticlesSettings
from rowmill_systems.parts.embeddings import open_embedder
from rowmill_systems.parts.models import ModelClient, ModelEndpoint

LIMIT = "articles_model"
CONCURRENT_CALLS = 4


def open_classifier(settings: ArticlesSettings, mill: rm.Mill | None) -> Classifier:
    """Open a classifier. `mill` holds the limits of an endpoint; the other classifiers need none.

    Raises DeclarationError with what is wrong and its fix.
    """
    check_settings(settings)
    taxonomy = load_taxonomy(settings.taxonomy)
    match settings.classifier:
        case "wordllama":
            from rowmill_systems.articles.classifying.embedding import EmbeddingClassifier
            from rowmill_systems.articles.classifying.trained import TrainedClassifier, load_trained

            embedder = open_embedder("wordllama")
            if settings.trained_model is None:
                return EmbeddingClassifier(embedder, taxonomy)
            return TrainedClassifier(embedder, taxonomy, load_trained(settings.trained_model), settings.trained_model)
        case "mdeberta":
            from rowmill_systems.articles.classifying.mdeberta import MdebertaClassifier

            assert settings.mdeberta_path is not None
            return MdebertaClassifier(settings.mdeberta_path, taxonomy)
        case "endpoint":
            from rowmill_systems.articles.classifying.endpoint import EndpointClassifier

            if mill is None:
                raise _bad(["an endpoint needs a database for its limits. Set ARTICLES_DATABASE_URL"])
            return EndpointClassifier(_client(settings, mill), taxonomy)
        case _:
            assert_never(settings.classifier)


def check_settings(settings: ArticlesSettings) -> None:
    """Raise DeclarationError if the settings name no classifier that could be opened."""
    load_taxonomy(settings.taxonomy)
    if settings.trained_model is not None and settings.classifier != "wordllama":
        raise _bad(["trained_model is on top of wordllama. Leave ARTICLES_CLASSIFIER out, or ARTICLES_TRAINED_MODEL"])
    if settings.classifier == "mdeberta" and settings.mdeberta_path is None:
        raise _bad(["mdeberta_path is missing. Set ARTICLES_MDEBERTA_PATH to the folder of the model"])
    if settings.classifier == "endpoint" and not (settings.endpoint_url and settings.endpoint_model):
        raise _bad(["endpoint_url or endpoint_model is missing. Set ARTICLES_ENDPOINT_URL and …_MODEL"])


def _client(settings: ArticlesSettings, mill: rm.Mill) -> ModelClient:
    key = settings.endpoint_key if settings.endpoint_key.get_secret_value() else None
    endpoint = ModelEndpoint(settings.endpoint_url, settings.endpoint_model, key)
    tokens, calls = settings.endpoint_tokens_per_day, settings.endpoint_calls_per_minute
    limit = mill.limit(
        LIMIT,
        concurrent=CONCURRENT_CALLS,
        rate=None if calls is None else rm.limits.Rate(calls, per=60.0),
        budget=None if tokens is None else rm.limits.Budget(tokens, per="day"),
    )
    return ModelClient(endpoint, limit)


def _bad(problems: list[str]) -> rm.errors.DeclarationError:
    return rm.errors.DeclarationError("", problems, "classifier")
