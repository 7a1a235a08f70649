"""One question to a server that speaks `/chat/completions`, within a limit that the whole fleet shares."""

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx2

import rowmill as rm
from rowmill_systems.intake.errors import ReadingTimedOut
from rowmill_systems.intake.fields.model.answers import envelope, tokens_used
from rowmill_systems.intake.fields.model.settings import ModelSettings
from rowmill_systems.parts.services.responses import TOO_MANY, all_of, retry_after

MOST_BYTES = 4 * 1024 * 1024
"""Of an answer."""
LOOK_SECONDS = 5.0
CONNECT_SECONDS = 10.0
REFUSED = (301, 302, 303, 307, 308, 401, 402, 403, 404, 405, 410)
"""Our key, our address or our model is wrong: not the file."""
AWAY = (408, 409, 425)


class Rejected(rm.PermanentError):
    """The server does not take this question: too long, or against its rules."""

    code = "model_rejected"

    def __init__(self, message: str, *, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class Chat:
    """Made once, closed once. The key is sent, and never shown."""

    def __init__(self, settings: ModelSettings, limit: rm.limits.Limit) -> None:
        self._settings, self._limit = settings, limit
        key = settings.api_key.get_secret_value() if settings.api_key else None
        self._base = settings.base_url.rstrip("/")
        self._client = httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx2.Timeout(settings.timeout, connect=min(CONNECT_SECONDS, settings.timeout)),
        )

    async def ask(self, body: Mapping[str, Any], *, cost: int, wait: float) -> dict[str, Any]:
        """The answer. `cost` tokens are reserved for it, and as many are spent as the server says that it used. What is
        raised inside of the block tells the fleet how the server is."""
        async with self._limit.call(cost=cost, wait=wait) as call:
            status, headers, content = await self._post(body, call)
            if not 200 <= status < 300:
                call.cost(0)
                raise refusal(status, headers)
            answer = envelope(content)
            if (used := tokens_used(answer)) is not None:
                call.cost(used)
            return answer

    async def _post(self, body: Mapping[str, Any], call: rm.limits.Call) -> tuple[int, httpx2.Headers, bytes]:
        late: Exception | None = None
        try:
            # httpx2 counts from byte to byte, and a server may drip.
            async with asyncio.timeout(self._settings.timeout), self._posted(body) as response:
                # No answer of a model is that long, and none is empty.
                return response.status_code, response.headers, await all_of(response, MOST_BYTES) or b""
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            call.cost(0)
            raise rm.errors.ProviderDown(f"the model's server can't be reached: {type(error).__name__}") from error
        except (TimeoutError, httpx2.TimeoutException) as error:
            late = error
        except (httpx2.NetworkError, httpx2.ProxyError) as error:
            raise rm.errors.ProviderDown(f"the model's server broke off: {type(error).__name__}") from error
        except httpx2.RequestError:
            pass  # not a cause: it quotes what the server sent, which may be what the document says
        if late is None:
            raise rm.errors.ProviderDown("the model's server does not speak HTTP as it should")
        await self._look(late)
        raise ReadingTimedOut(f"no answer of the model within {self._settings.timeout:g} seconds") from late

    def _posted(self, body: Mapping[str, Any]) -> Any:
        return self._client.stream("POST", f"{self._base}/chat/completions", json=body)

    async def _look(self, late: Exception) -> None:
        """Is it this question that takes so long, or does the server hang? A question may be asked so many times; a
        server that hangs is away, and that is no file's fault."""
        seconds = min(LOOK_SECONDS, self._settings.timeout)
        try:
            async with asyncio.timeout(seconds), self._client.stream("GET", f"{self._base}/models") as response:
                alive = response.status_code < 500
        except (TimeoutError, httpx2.RequestError):
            alive = False
        if not alive:
            raise rm.errors.ProviderDown("the model's server hangs") from late

    async def close(self) -> None:
        await self._client.aclose()


def refusal(status: int, headers: httpx2.Headers) -> rm.errors.WorkError:
    """By status alone: the text may quote the document."""
    if status == TOO_MANY:
        return rm.RateLimited("the model's server answers 429", retry_after=retry_after(headers))
    if status in REFUSED:
        return rm.errors.ProviderRefused(f"the model's server answers {status}: look at base_url, model and api_key")
    if status >= 500 or status in AWAY or status < 400:
        return rm.errors.ProviderDown(f"the model's server answers {status}", retry_after=retry_after(headers))
    return Rejected(f"the model's server answers {status}", status=status)
