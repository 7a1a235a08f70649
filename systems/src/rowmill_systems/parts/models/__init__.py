"""Language models and embeddings behind an OpenAI-compatible API, within limits of the whole fleet.

    import rowmill as rm
    from pydantic import SecretStr
    from rowmill_systems.parts.models import ModelClient, ModelEndpoint

    endpoint = ModelEndpoint(base_url=address, model="small", api_key=SecretStr("sk-0815"))
    limit = mill.limit("model", concurrent=4, budget=rm.limits.Budget(1_000_000, per="day"))
    async with ModelClient(endpoint, limit) as client:
        reply = await client.chat([{"role": "user", "content": "Say yes."}], max_tokens=10)
        vectors = await client.embed(["A cat sat on a mat."])
    print(reply.text, len(vectors[0]))

A call reserves its tokens in the budget of the limit, and spends as many as the server reports. A 429 keeps the whole
fleet away for as long as Retry-After says, a server that is down opens the limit's breaker, and neither costs a row an
attempt. Give the client an AnswerCache, and it asks nothing twice.
"""

from rowmill_systems.parts.models.answers import ChatReply, ModelAnswerUnreadable, find_object
from rowmill_systems.parts.models.client import ModelClient, ModelRejected, ModelTimedOut
from rowmill_systems.parts.models.endpoint import ModelEndpoint
from rowmill_systems.parts.models.tokens import estimate_tokens

__all__ = [
    "ChatReply", "ModelAnswerUnreadable", "ModelClient", "ModelEndpoint", "ModelRejected", "ModelTimedOut",
    "estimate_tokens", "find_object",
]  # fmt: skip
