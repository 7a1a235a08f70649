"""Why a fetch failed, by a stable code."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import rowmill as rm

MESSAGES = {
    "bad_address": "the address is not one of http or https",
    "address_too_long": "the address has more bytes than allowed. Use a shorter one",
    "scheme_refused": "a redirect leads to something else than http or https",
    "address_refused": "the host has an address inside a network, which is not allowed",
    "dns": "the host has no address",
    "unreachable": "no connection could be made",
    "tls": "the certificate or the TLS of the server is not accepted",
    "timed_out": "it took longer than a fetch may",
    "connection_broken": "the connection broke",
    "bad_response": "the response is not HTTP, or ended too early",
    "too_large": "the response has more bytes than allowed",
    "bad_encoding": "the response is not packed as its Content-Encoding says",
    "unknown_encoding": "the response is packed in a way that was not asked for, or more than once",
    "too_many_redirects": "more redirects than allowed",
    "bad_redirect": "a redirect without a usable address",
}
RETRYABLE = frozenset({"dns", "unreachable", "tls", "timed_out", "connection_broken", "bad_response"})
"""A certificate that expired is renewed sooner or later, so `tls` is among them."""
RETRYABLE_STATUS = frozenset({408, 421, 425, 429})
GONE = 410


class FetchFailed(rm.errors.WorkError):
    """A fetch without a usable response. `code` is one of MESSAGES, or `http_404` and so on; `retryable` says whether
    the same fetch may succeed later. The text never has the address in it: addresses may hold secrets."""

    def __init__(
        self,
        code: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        host: str | None = None,
        permanent_url: str | None = None,
    ) -> None:
        message = MESSAGES.get(code) or f"the server answers {status}"
        retryable = code in RETRYABLE if status is None else status >= 500 or status in RETRYABLE_STATUS
        super().__init__(message, code=code, retryable=retryable)
        self.status = status
        """The HTTP status; None if there was no response, or if it was not the status that failed."""
        self.retry_after = retry_after
        """Seconds for which the server asks to be left alone."""
        self.host = host
        """The host that failed: after redirects it may be another one than was asked for."""
        self.permanent_url = permanent_url
        """Where permanent redirects led before it failed."""


def http_failure(status: int, retry_after: float | None, host: str, permanent_url: str | None) -> FetchFailed:
    return FetchFailed(f"http_{status}", status=status, retry_after=retry_after, host=host, permanent_url=permanent_url)


def retry_after_seconds(header: str | None, now: datetime) -> float | None:
    """Return the seconds of a Retry-After header: a number of seconds, or a date. None if it can't be read."""
    text = (header or "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:12])
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max((moment - now).total_seconds(), 0.0)
