"""Call a model on an OpenAI-compatible server."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import httpx2

import rowmill as rm
from rowmill_systems.parts.closing import AsyncCloseable
from rowmill_systems.parts.models.answers import ChatReply, chat_reply, embeddings, read_body, tokens_used
from rowmill_systems.parts.models.endpoint import ModelEndpoint
from rowmill_systems.parts.models.tokens import estimate_tokens
from rowmill_systems.parts.services.cache import AnswerCache
from rowmill_systems.parts.services.errors import RequestRejected, refusal
from rowmill_systems.parts.services.sending import Received, ResponseTimedOut, ServerUnreachable, send, timeouts
from rowmill_systems.parts.tls import shared_ssl_context

NAME = "the model's server"
MAX_BYTES = 64 * 1024 * 1024
"""Of an answer. A hundred long vectors have some megabytes."""
PROBE_SECONDS = 5.0
SECOND_CALL_SECONDS = 60.0
"""How long the second call of a request waits for room in the limit."""
NO_SCHEMA = (400, 422)
"""What servers answer that don't know schemas. If that is the reason, they accept the same request without one."""
BATCH_TEXTS = 64
BATCH_TOKENS = 50_000


class ModelRejected(rm.PermanentError):
    """The server does not accept this request: too long, or against its rules."""

    code = "model_rejected"

    def __init__(self, message: str, *, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class ModelTimedOut(rm.TransientError):
    """This request took longer than allowed, while the server answers others."""

    code = "timeout"


class ModelClient(AsyncCloseable):
    """A model, called within a limit that the whole fleet shares. The key is sent, and never shown.

    All methods raise RateLimited, ProviderDown, ProviderRefused and Limited, which cost a row no attempt;
    ModelTimedOut and ModelAnswerUnreadable, which may pass; and ModelRejected, which does not.

    Use it with `async with`, or close it once.
    """

    def __init__(
        self,
        endpoint: ModelEndpoint,
        limit: rm.limits.Limit,
        *,
        cache: AnswerCache | None = None,
        cache_days: float = 30.0,
    ) -> None:
        """`limit` counts calls, and tokens if it has a budget. Answers are cached if there is a cache."""
        self.endpoint = endpoint
        self._limit, self._cache, self._cache_days = limit, cache, cache_days
        self._base = endpoint.base_url.rstrip("/")
        self._takes_schemas = True
        key = endpoint.api_key.get_secret_value() if endpoint.api_key else None
        self._client = httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=timeouts(endpoint.timeout),
            follow_redirects=False,
            verify=shared_ssl_context(),
        )

    async def chat(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        max_tokens: int,
        schema: Mapping[str, Any] | None = None,
        temperature: float = 0.0,
        wait: float = 0.0,
    ) -> ChatReply:
        """Return the model's reply. Waits up to `wait` seconds for room in the limit.

        With a JSON `schema`, the server is asked to keep to it. A server that knows no schemas is asked without one,
        from then on: check what it replies.
        """
        body = {
            "model": self.endpoint.model,
            "messages": [dict(message) for message in messages],
            "temperature": temperature,
            "max_tokens": max_tokens,
        }
        key = _cache_key(body, schema)
        if (known := await self._find([key])).get(key):
            return ChatReply(known[key])
        cost = sum(estimate_tokens(each.get("content", "")) for each in messages) + max_tokens
        reply = chat_reply(await self._chat(body, schema, cost, wait))
        if reply.text and not reply.refused:
            await self._store({key: reply.text})
        return reply

    async def _chat(
        self, body: Mapping[str, Any], schema: Mapping[str, Any] | None, cost: int, wait: float
    ) -> dict[str, Any]:
        if schema is None or not self._takes_schemas:
            return await self._post("/chat/completions", body, cost, wait)
        form = {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}
        try:
            return await self._post("/chat/completions", {**body, "response_format": form}, cost, wait)
        except ModelRejected as error:
            if error.status not in NO_SCHEMA:
                raise
        answer = await self._post("/chat/completions", body, cost, max(wait, SECOND_CALL_SECONDS))
        self._takes_schemas = False
        return answer

    async def embed(self, texts: Sequence[str], *, wait: float = 0.0) -> list[list[float]]:
        """Return a vector for each text, in their order. Many texts share a call. The server refuses empty texts."""
        keys = {text: _cache_key({"model": self.endpoint.model}, text) for text in dict.fromkeys(texts)}
        known = await self._find(list(keys.values()))
        found: dict[str, list[float]] = {text: known[key] for text, key in keys.items() if key in known}
        for batch in _batches([text for text in keys if text not in found]):
            vectors = await self._embed(batch, wait)
            await self._store({keys[text]: vector for text, vector in zip(batch, vectors, strict=True)})
            found |= zip(batch, vectors, strict=True)
        return [found[text] for text in texts]

    async def _embed(self, texts: list[str], wait: float) -> list[list[float]]:
        """Embed a batch; by halves, if it is larger than the server accepts."""
        body = {"model": self.endpoint.model, "input": texts, "encoding_format": "float"}
        try:
            answer = await self._post("/embeddings", body, sum(map(estimate_tokens, texts)), wait)
        except ModelRejected:
            if len(texts) == 1:
                raise
            middle = len(texts) // 2
            return await self._embed(texts[:middle], wait) + await self._embed(texts[middle:], wait)
        return embeddings(answer, len(texts))

    async def _post(self, path: str, body: Mapping[str, Any], cost: int, wait: float) -> dict[str, Any]:
        """Reserve `cost` tokens, and spend as many as the server reports. What is raised inside of the block tells the
        fleet how the server is."""
        async with self._limit.call(cost=cost, wait=wait) as call:
            try:
                received = await self._send("POST", path, self.endpoint.timeout, json=body)
            except ServerUnreachable:
                call.cost(0)
                raise
            except ResponseTimedOut as error:
                await self._check_alive(error)
                raise ModelTimedOut(f"no answer of the model within {self.endpoint.timeout:g} seconds") from error
            if not received.ok:
                call.cost(0)
                raise _refusal(received)
            answer = read_body(received.content or b"")
            if (used := tokens_used(answer)) is not None:
                call.cost(used)
            return answer

    async def _check_alive(self, error: Exception) -> None:
        """Tell a request that takes long from a server that hangs: a server that hangs is no fault of the row."""
        try:
            found = await self._send("GET", "/models", min(PROBE_SECONDS, self.endpoint.timeout))
            alive = found.status < 500
        except rm.errors.ProviderDown:
            alive = False
        if not alive:
            raise rm.errors.ProviderDown(f"{NAME} hangs") from error

    async def _send(self, method: str, path: str, seconds: float, **given: Any) -> Received:
        url = f"{self._base}{path}"
        return await send(self._client, method, url, name=NAME, seconds=seconds, max_bytes=MAX_BYTES, **given)

    async def _find(self, keys: Sequence[str]) -> dict[str, Any]:
        if self._cache is None:
            return {}
        found = await self._cache.find(self._limit.name, [(key, None) for key in keys])
        return {key: answer for (key, _), answer in found.items()}

    async def _store(self, answers: Mapping[str, Any]) -> None:
        if self._cache is not None:
            await self._cache.store(self._limit.name, answers, self._cache_days)

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self._client.aclose()


def _refusal(received: Received) -> rm.errors.WorkError:
    """Nothing is added to the address that could be wrong by itself: a 404 means a wrong address or model."""
    error = refusal(NAME, received.status, received.headers, path="", advice="look at base_url, model and api_key")
    return ModelRejected(str(error), status=received.status) if isinstance(error, RequestRejected) else error


def _cache_key(*asked: Any) -> str:
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    tokens = 0
    for text in texts:
        size = estimate_tokens(text)
        if batch and (len(batch) == BATCH_TEXTS or tokens + size > BATCH_TOKENS):
            yield batch
            batch, tokens = [], 0
        batch.append(text)
        tokens += size
    if batch:
        yield batch
