"""Ask a service one question."""

from typing import Any

import httpx2

import rowmill as rm
from rowmill_systems.parts.services.errors import RequestTooLong, refusal
from rowmill_systems.parts.services.failures import FailureCheck
from rowmill_systems.parts.services.json_body import read_json
from rowmill_systems.parts.services.question import Question
from rowmill_systems.parts.services.sending import send, timeouts
from rowmill_systems.parts.services.settings import ServiceSettings
from rowmill_systems.parts.tls import shared_ssl_context

MAX_BYTES = 24 * 1024 * 1024
"""Of an answer, unpacked. Fifty of the longest items of Wikidata have about as many."""


def new_client(settings: ServiceSettings) -> httpx2.AsyncClient:
    """Make a client that names the application in its User-Agent and follows no redirects."""
    return httpx2.AsyncClient(
        headers={"User-Agent": user_agent(settings), "Accept": "application/json"},
        timeout=timeouts(settings.call_seconds),
        follow_redirects=False,
        verify=shared_ssl_context(),
    )


def user_agent(settings: ServiceSettings) -> str:
    contact = settings.contact
    if contact and not (contact.isascii() and contact.isprintable()):
        problems = ["contact has characters that no header may have"]
        raise rm.errors.DeclarationError(settings.application, problems, kind="settings of")
    about = f"{settings.application}; {contact}" if contact else settings.application
    return f"Rowmill/{rm.__version__} ({about}) python-httpx2/{httpx2.__version__}"


async def call(
    client: httpx2.AsyncClient,
    question: Question,
    *,
    name: str,
    base: str,
    settings: ServiceSettings,
    fault: FailureCheck,
) -> Any:
    """Return the JSON of the answer. Errors quote neither the question nor the answer.

    Raises RateLimited, ProviderDown and ProviderRefused, which hold for the whole fleet, and RequestRejected.
    """
    given = {"data" if question.method == "POST" else "params": dict(question.parameters)}
    received = await send(
        client, question.method, question.url, name=name, seconds=settings.call_seconds, max_bytes=MAX_BYTES, **given
    )
    if not received.ok:
        advice = f"set {settings.contact_setting}, since services refuse programs that are nobody's"
        path = question.url.removeprefix(base)
        raise refusal(name, received.status, received.headers, path=path, advice=advice)
    if received.content is None:
        raise RequestTooLong(f"{name} answers with more than {MAX_BYTES // 1024**2} MB")
    try:
        answer = read_json(received.content)
    except ValueError as error:
        raise rm.errors.ProviderDown(f"{name} answers no JSON, or ends early") from error
    if (wrong := fault(name, answer, received.headers)) is not None:
        raise wrong
    return answer
