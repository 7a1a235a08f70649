"""One call over HTTP: an answer, or what it says of the service that there is none."""

import asyncio
import logging
from contextvars import ContextVar
from typing import Any
from urllib.parse import urlsplit

import httpx2

import rowmill as rm
from rowmill_systems.parts.services.faults import Fault
from rowmill_systems.parts.services.question import Question
from rowmill_systems.parts.services.reading import read_json
from rowmill_systems.parts.services.refusals import RequestTooLong, refusal
from rowmill_systems.parts.services.responses import all_of
from rowmill_systems.parts.services.settings import ServiceSettings

MOST_BYTES = 24 * 1024 * 1024
"""Of an answer, unpacked. Fifty of the longest items of Wikidata have about as many."""
CONNECT_SECONDS = 10.0


def new_client(settings: ServiceSettings) -> httpx2.AsyncClient:
    """Make a client that names the application in its User-Agent and follows no redirects."""
    seconds = settings.call_seconds
    return httpx2.AsyncClient(
        headers={"User-Agent": user_agent(settings), "Accept": "application/json"},
        timeout=httpx2.Timeout(seconds, connect=min(CONNECT_SECONDS, seconds)),
        follow_redirects=False,
    )


def user_agent(settings: ServiceSettings) -> str:
    contact = settings.contact
    if contact and not (contact.isascii() and contact.isprintable()):
        problems = ["contact has characters that no header may have"]
        raise rm.errors.DeclarationError(settings.application, problems, kind="settings of")
    about = f"{settings.application}; {contact}" if contact else settings.application
    return f"Rowmill/{rm.__version__} ({about}) python-httpx2/{httpx2.__version__}"


async def call(
    client: httpx2.AsyncClient, question: Question, *, name: str, base: str, settings: ServiceSettings, fault: Fault
) -> Any:
    """The JSON that is answered. Errors say what the whole fleet should know, and quote neither question nor answer."""
    status, headers, content = await _sent(client, question, name, settings.call_seconds)
    if not 200 <= status < 300:
        path = question.url.removeprefix(base)
        raise refusal(name, status, headers, path=path, contact_setting=settings.contact_setting)
    if content is None:
        raise RequestTooLong(f"{name} answers with more than {MOST_BYTES // 1024**2} MB")
    try:
        answer = read_json(content)
    except ValueError as error:
        raise rm.errors.ProviderDown(f"{name} answers no JSON, or ends early") from error
    if (wrong := fault(name, answer, headers)) is not None:
        raise wrong
    return answer


async def _sent(
    client: httpx2.AsyncClient, question: Question, name: str, seconds: float
) -> tuple[int, httpx2.Headers, bytes | None]:
    given = {"data" if question.method == "POST" else "params": dict(question.parameters)}
    token = OURS.set(True)
    try:
        # httpx2 counts from byte to byte, and a server may drip.
        async with asyncio.timeout(seconds), client.stream(question.method, question.url, **given) as response:  # type: ignore[arg-type]
            return response.status_code, response.headers, await all_of(response, MOST_BYTES)
    except (TimeoutError, httpx2.TimeoutException):
        happened = f"does not answer within {seconds:g} seconds"
    except httpx2.ConnectError:
        happened = "can't be reached"
    except (httpx2.RequestError, httpx2.InvalidURL):
        happened = "broke off"
    finally:
        OURS.reset(token)
    raise rm.errors.ProviderDown(f"{name} {happened}")  # without a cause: it may quote what was sent


OURS: ContextVar[bool] = ContextVar("OURS", default=False)


class HostAlone(logging.Filter):
    """httpx2 logs the address of every call, and ours have names in them: of these it logs the host."""

    def filter(self, record: logging.LogRecord) -> bool:
        if OURS.get() and isinstance(record.args, tuple):
            record.args = tuple(_host(each) if isinstance(each, httpx2.URL) else each for each in record.args)
        return True


def _host(url: httpx2.URL) -> str:
    parts = urlsplit(str(url))
    return f"{parts.scheme}://{parts.hostname}"


logging.getLogger("httpx2").addFilter(HostAlone())
