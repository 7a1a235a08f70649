"""What the status of a response means for the caller and for the whole fleet."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import httpx2

import rowmill as rm

WAIT, LONGEST_WAIT = 60.0, 3600.0
TOO_MANY = 429
UNAVAILABLE = 503
REFUSED = (401, 402, 403, 407)
AWAY = (408, 421, 425)
GONE = (404, 410)
TOO_LONG = (413, 414)


class RequestRejected(rm.PermanentError):
    """The service does not accept this request, and will not when it is sent again."""

    code = "rejected"

    def __init__(self, message: str, *, status: int = 200) -> None:
        super().__init__(message)
        self.status = status

    @property
    def gone(self) -> bool:
        """Whether the service has nothing of that name. For a lookup by name, that is an answer."""
        return self.status in GONE


class RequestTooLong(RequestRejected):
    """The request or its response is longer than allowed. A part of the request may not be."""


def refusal(name: str, status: int, headers: httpx2.Headers, *, path: str, advice: str) -> rm.errors.WorkError:
    """Return the error for a status that is not 2xx: RateLimited, ProviderRefused, ProviderDown or RequestRejected.

    Decides by the status alone, since a body may quote the request. `path` is what the request added to the address of
    the service: if it added nothing, a redirect or a 404 means that the address is wrong, not the request. `advice`
    says what to set when the service refuses the caller.
    """
    message = f"{name} answers {status}"
    if status == TOO_MANY or (status == UNAVAILABLE and "retry-after" in headers):
        return rm.RateLimited(message, retry_after=retry_after(headers))
    if status in REFUSED:
        return rm.errors.ProviderRefused(f"{message}: {advice}")
    if (status in GONE and not path) or (status < 400 and _moved(headers, path)):
        return rm.errors.ProviderRefused(f"{message}: look at its address")
    if status >= 500 or status in AWAY or status < 200:
        return rm.errors.ProviderDown(message)
    if status in TOO_LONG:
        return RequestTooLong(message, status=status)
    return RequestRejected(message, status=status)


def retry_after(headers: httpx2.Headers) -> float:
    """Return the seconds of Retry-After, between a second and an hour; a minute if the header makes no sense.

    A date counts by the server's own clock.
    """
    given = headers.get("retry-after", "").strip()
    seconds = WAIT
    try:
        seconds = float(given)
    except ValueError:
        try:
            until = parsedate_to_datetime(given)
            now = parsedate_to_datetime(headers["date"]) if "date" in headers else datetime.now(UTC)
            seconds = (until - now).total_seconds()
        except (ValueError, TypeError):
            pass
    return min(max(seconds, 1.0), LONGEST_WAIT) if seconds == seconds else WAIT


def _moved(headers: httpx2.Headers, path: str) -> bool:
    """Tell whether the service moved, and not one name in it. Redirects are not followed: the operator says where calls
    go, and a second call would not be counted."""
    return not path or urlsplit(headers.get("location", "")).path.endswith(path)
