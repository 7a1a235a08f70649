"""Open the model that makes vectors, by the settings."""

import rowmill as rm
from rowmill_systems.knowledge.settings import KnowledgeSettings
from rowmill_systems.parts.embeddings import Embedder, EndpointEmbedder, open_embedder
from rowmill_systems.parts.models import ModelClient, ModelEndpoint

LIMIT = "knowledge_endpoint"
CONCURRENT_CALLS = 4


def open_embedding(settings: KnowledgeSettings, mill: rm.Mill) -> Embedder:
    """Open the model. Raises DeclarationError with what is wrong and its fix, or LookupError if it is not installed.

    An endpoint is called within limits of the whole fleet.
    """
    if settings.embedder != "endpoint":
        return open_embedder(settings.embedder)
    if not (settings.endpoint_url and settings.embedding_model):
        problem = "endpoint_url or embedding_model is missing. Set KNOWLEDGE_ENDPOINT_URL and KNOWLEDGE_EMBEDDING_MODEL"
        raise rm.errors.DeclarationError("endpoint", [problem], "embedder")
    client = endpoint_client(settings, mill, settings.embedding_model)
    return EndpointEmbedder(client, dimensions=settings.embedding_dimensions)


def endpoint_client(settings: KnowledgeSettings, mill: rm.Mill, model: str) -> ModelClient:
    """Return a client of the endpoint, for embeddings or for answers. Both share one limit. The caller closes it."""
    limit = mill.limits[LIMIT] if LIMIT in mill.limits else declare_limit(settings, mill)
    key = settings.endpoint_key if settings.endpoint_key and settings.endpoint_key.get_secret_value() else None
    return ModelClient(ModelEndpoint(settings.endpoint_url, model, key), limit)


def declare_limit(settings: KnowledgeSettings, mill: rm.Mill) -> rm.limits.Limit:
    """Declare the limit that all calls of the fleet to the endpoint share. A mill has it once."""
    tokens, calls = settings.endpoint_tokens_per_day, settings.endpoint_calls_per_minute
    return mill.limit(
        LIMIT,
        concurrent=CONCURRENT_CALLS,
        rate=None if calls is None else rm.limits.Rate(calls, per=60.0),
        budget=None if tokens is None else rm.limits.Budget(tokens, per="day"),
    )
