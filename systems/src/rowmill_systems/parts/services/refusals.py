"""What a status other than 200 means."""

from urllib.parse import urlsplit

import httpx2

import rowmill as rm
from rowmill_systems.parts.services.responses import TOO_MANY, retry_after

UNAVAILABLE = 503
REFUSED = (401, 402, 403, 407)
AWAY = (408, 421, 425)
GONE = (404, 410)
TOO_LONG = (413, 414)


class RequestRejected(rm.PermanentError):
    """The service does not take this question, and will not: it is no use to ask again."""

    code = "rejected"

    def __init__(self, message: str, *, status: int = 200) -> None:
        super().__init__(message)
        self.status = status

    @property
    def gone(self) -> bool:
        """The service has nothing of that name: an answer, where names are asked for."""
        return self.status in GONE


class RequestTooLong(RequestRejected):
    """The question or its answer is longer than one may be. A part of it may not be."""


def refusal(
    name: str, status: int, headers: httpx2.Headers, *, path: str, contact_setting: str = "contact"
) -> rm.errors.WorkError:
    """By the status alone: a text may quote what was asked. `path` is what the question added to the service's address:
    if it added nothing, a redirect or a 404 means that the address is wrong, and that is no question's fault."""
    told = f"{name} answers {status}"
    if status == TOO_MANY or (status == UNAVAILABLE and "retry-after" in headers):
        return rm.RateLimited(told, retry_after=retry_after(headers))
    if status in REFUSED:
        why = f"set {contact_setting}, since services refuse programs that are nobody's"
        return rm.errors.ProviderRefused(f"{told}: {why}")
    if (status in GONE and not path) or (status < 400 and _moved(headers, path)):
        return rm.errors.ProviderRefused(f"{told}: look at its address")
    if status >= 500 or status in AWAY or status < 200:
        return rm.errors.ProviderDown(told)
    if status in TOO_LONG:
        return RequestTooLong(told, status=status)
    return RequestRejected(told, status=status)


def _moved(headers: httpx2.Headers, path: str) -> bool:
    """The service, and not one name in it. We don't follow: where calls go is said by whoever runs us, and a second
    call would not be counted."""
    return not path or urlsplit(headers.get("location", "")).path.endswith(path)
