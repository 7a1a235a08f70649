"""Ask a service over HTTP for companies, and say by stable codes why it did not answer."""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx2

import rowmill as rm
from rowmill_systems.companies.providers.blocking_http import BlockingHttp
from rowmill_systems.companies.providers.port import ProviderClosed, ProviderOff, SpendCall
from rowmill_systems.parts.services.errors import GONE, REFUSED, TOO_MANY, retry_after
from rowmill_systems.parts.services.json_body import read_json
from rowmill_systems.parts.services.sending import Received, ResponseTimedOut, ServerUnreachable


class ServiceRejected(rm.PermanentError):
    """The service does not accept this request, and will not when it is sent again."""

    code = "rejected"


class CompanyService:
    """A service over HTTP, with what is known of its state: refused us, asks us to wait, closed. Thread-safe.

    Errors and logs name the service, never a name of a company, the token or what was answered.

    | code | when |
    | --- | --- |
    | provider_off | 401, 402, 403 or 407: not asked again before `begin_run` |
    | rate_limited | 429: not asked again before Retry-After |
    | server_error | 5xx, 408, 425; after a 503 with Retry-After it is not asked before |
    | timeout | no complete answer in time |
    | unreachable | no connection, or it broke |
    | bad_answer | no JSON, half of it, something else than was asked for, a redirect, more than the size allowed |
    | rejected | any other status: permanent |
    """

    def __init__(
        self,
        name: str,
        base_url: str,
        *,
        headers: Mapping[str, str],
        seconds: float,
        address_setting: str,
        token_setting: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """The settings are those that messages ask to look at."""
        self.name, self.base_url = name, base_url.rstrip("/")
        problems = [*_url_problems(base_url, address_setting), *_header_problems(headers, token_setting)]
        if problems:
            raise rm.errors.DeclarationError(name, problems, kind="provider")
        self._http = BlockingHttp(name, headers={"Accept": "application/json", **headers}, seconds=seconds)
        self._address_setting, self._token_setting, self._clock = address_setting, token_setting, clock
        self._lock = threading.Lock()
        self._off: str | None = None
        self._wait_until = float("-inf")

    def begin_run(self) -> None:
        """Ask again, if the service refused us in the run before. A Retry-After that is not over stays."""
        with self._lock:
            self._off = None

    def switch_off(self, reason: str) -> ProviderOff:
        """Ask no more in this run. Return the error that later names get too."""
        advice = f": look at {self._token_setting}" if self._token_setting else ""
        with self._lock:
            self._off = f"{reason}{advice}"
            return ProviderOff(self._off)

    def ask(self, method: str, path: str, spend: SpendCall, **given: Any) -> Any:
        """Return the JSON of the answer, or None for a 404.

        Raises a WorkError with one of the codes above, and what `spend` raises. `given` goes to httpx2.
        """
        self._check_open()
        spend()
        try:
            received = self._http.send(method, f"{self.base_url}{path}", **given)
        except ProviderClosed:
            raise
        except ServerUnreachable as error:
            raise rm.TransientError(str(error), code="unreachable") from None
        except ResponseTimedOut as error:
            raise rm.TransientError(str(error), code="timeout") from None
        except rm.errors.ProviderDown as error:
            raise rm.TransientError(str(error), code="unreachable") from None
        return self._content(received)

    def close(self) -> None:
        """Release connections. Idempotent."""
        self._http.close()

    def bad_answer(self, why: str) -> rm.TransientError:
        return rm.TransientError(f"{self.name} {why}", code="bad_answer")

    def _check_open(self) -> None:
        with self._lock:
            off, wait = self._off, self._wait_until - self._clock()
        if off is not None:
            raise ProviderOff(off)
        if wait > 0:
            raise rm.RateLimited(f"{self.name} asked us to wait", retry_after=wait)

    def _content(self, received: Received) -> Any:
        status = received.status
        if status in GONE:
            return None
        if not received.ok:
            raise self._refusal(status, received.headers)
        if received.content is None:
            raise self.bad_answer(f"answers with more than {self._http.max_bytes // 1024**2} MB")
        try:
            return read_json(received.content)
        except ValueError:
            raise self.bad_answer("answers no JSON, or ends early") from None

    def _refusal(self, status: int, headers: httpx2.Headers) -> rm.errors.WorkError:
        """Decide by the status alone, since a body may quote the request."""
        message = f"{self.name} answers {status}"
        if status in REFUSED:
            return self.switch_off(message)
        if status == TOO_MANY:
            return rm.RateLimited(message, retry_after=self._pause(headers))
        if status >= 500 or status in (408, 425):
            if "retry-after" in headers:
                self._pause(headers)
            return rm.TransientError(message, code="server_error")
        if status < 400:
            return self.bad_answer(f"answers {status}: look at {self._address_setting}")
        return ServiceRejected(message)

    def _pause(self, headers: httpx2.Headers) -> float:
        seconds = retry_after(headers)
        with self._lock:
            self._wait_until = max(self._wait_until, self._clock() + seconds)
        return seconds


def _url_problems(base_url: str, setting: str) -> list[str]:
    try:
        parts = urlsplit(base_url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return [f"{setting} is no address: write it as https://host/path"]
    if not fine:
        return [f"{setting} is no address: write it as https://host/path"]
    if parts.username or parts.password:
        return [f"{setting} has a user or a password in it, which logs would show: use a token instead"]
    if parts.query or parts.fragment:
        return [f"{setting} has a query or a fragment: leave out all from the ? or # on"]
    return []


def _header_problems(headers: Mapping[str, str], token_setting: str | None) -> list[str]:
    wrong = [name for name, value in headers.items() if not (value.isascii() and value.isprintable())]
    return [
        f"{'WDH_CONTACT' if name == 'User-Agent' else token_setting or name} has characters that no header may have"
        for name in wrong
    ]
