"""An HTTP server on loopback that misbehaves on demand, and counts what it was asked."""

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

PAGE = b"<!DOCTYPE html><html><head><title>Error</title></head><body>Our servers are busy.</body></html>"
HUGE_BYTES = 16 * 1024 * 1024
LONGEST_HANG = 60.0


class HttpFault(StrEnum):
    """A way to misbehave."""

    RATE_LIMITED = "429"
    """429 with Retry-After in seconds."""
    RATE_LIMITED_UNTIL = "429-date"
    """429 with Retry-After as a date."""
    BROKEN = "500"
    UNAVAILABLE = "503"
    UNAUTHORIZED = "401"
    FORBIDDEN = "403"
    REJECTED = "400"
    REDIRECT = "302"
    NOT_FOUND = "404"
    HANG = "hang"
    """No reply until the client gives up."""
    DRIP = "drip"
    """A byte now and then, from the first line on."""
    CLOSE = "close"
    """The connection ends without a reply."""
    CUT = "cut"
    """The connection ends in the middle of the body."""
    HALF = "half"
    """Half a JSON, with a matching length."""
    HTML = "html"
    """A page for people, with status 200."""
    HUGE = "huge"
    """More bytes than anybody wants."""
    EMPTY = "empty"
    """JSON of another form."""


@dataclass
class FaultPlan:
    """When the server misbehaves, and how."""

    next: list[str] = field(default_factory=list)
    """Faults of the next requests, before random ones; "" for none."""
    always: str = ""
    """The fault of every request."""
    rates: dict[str, float] = field(default_factory=dict)
    """Probability of each fault, from 0 to 1."""
    by_name: dict[str, list[str]] = field(default_factory=dict)
    """Faults of the next requests for a name; the last one stays."""
    retry_after: float = 1.0
    latency: float = 0.0
    """Seconds before each reply."""
    refuse_after: int | None = None
    """Requests after which the token is not taken any more."""
    seed: int = 1

    def __post_init__(self) -> None:
        self._chance, self._lock = random.Random(self.seed), threading.Lock()

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "FaultPlan":
        return cls(**{name: given[name] for name in cls.__dataclass_fields__ if name in given})

    def fault(self, names: list[str]) -> str:
        with self._lock:
            for name in names:
                if waiting := self.by_name.get(name):
                    return waiting.pop(0) if len(waiting) > 1 else waiting[0]
            if self.next:
                return self.next.pop(0)
            if self.always:
                return self.always
            drawn = self._chance.random()
            for name, rate in self.rates.items():
                if drawn < rate:
                    return name
                drawn -= rate
            return ""


@dataclass
class RequestCounts:
    """What was asked, and how it was answered."""

    requests: int = 0
    asked: Counter[str] = field(default_factory=Counter)
    """How often each name was asked for."""
    answered: Counter[str] = field(default_factory=Counter)
    """How often each name was answered completely: more than once, and a client pays twice."""
    faults: Counter[str] = field(default_factory=Counter)
    out_of_turn: int = 0
    """Requests before the end of a Retry-After."""
    wrong_tokens: int = 0
    dripped: int = 0
    """Bytes that were sent one by one."""

    def to_json(self) -> dict[str, Any]:
        return {
            "requests": self.requests,
            "names": len(self.asked),
            "answered": len(self.answered),
            "answered_twice": sum(count > 1 for count in self.answered.values()),
            "faults": dict(self.faults),
            "out_of_turn": self.out_of_turn,
            "wrong_tokens": self.wrong_tokens,
        }


@dataclass(frozen=True, slots=True)
class GivenRequest:
    method: str
    path: str
    headers: Mapping[str, str]
    parameters: Mapping[str, str]
    """Of the address and of the form."""


@dataclass(frozen=True, slots=True)
class GivenReply:
    content: Any
    """Becomes JSON."""
    status: int = 200


class FaultyServer:
    """Serves on a thread from `start` to `stop`. Subclasses say what is right."""

    def __init__(self, plan: FaultPlan | None = None, *, port: int = 0) -> None:
        self.plan = plan or FaultPlan()
        self.counts = RequestCounts()
        self.requests: list[GivenRequest] = []
        """All of them, in order."""
        self.stopping = threading.Event()
        self._lock = threading.Lock()
        self._wait_until = 0.0
        owner = self

        class Handler(_Handler):
            server_of = owner

        self._http = _Listener(("127.0.0.1", port), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def start(self) -> Self:
        self._thread.start()
        return self

    def stop(self) -> None:
        self.stopping.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def names(self, request: GivenRequest) -> list[str]:
        """Return the names that a request asks for."""
        raise NotImplementedError

    def reply(self, request: GivenRequest) -> GivenReply:
        """Return what a healthy server replies."""
        raise NotImplementedError

    def arrived(self, request: GivenRequest, names: list[str]) -> str:
        """Count a request. Return the fault with which it is answered."""
        with self._lock:
            counts = self.counts
            counts.requests += 1
            counts.asked.update(names)
            self.requests.append(request)
            early = time.monotonic() < self._wait_until
            counts.out_of_turn += early
            refused = self.plan.refuse_after is not None and counts.requests > self.plan.refuse_after
        if early:
            return HttpFault.RATE_LIMITED
        return HttpFault.UNAUTHORIZED if refused else self.plan.fault(names)

    def answered(self, names: list[str]) -> None:
        with self._lock:
            self.counts.answered.update(names)

    def misbehaved(self, fault: str) -> None:
        with self._lock:
            self.counts.faults[fault] += 1
            if fault in (HttpFault.RATE_LIMITED, HttpFault.RATE_LIMITED_UNTIL):
                self._wait_until = max(self._wait_until, time.monotonic() + self.plan.retry_after)

    def control(self, path: str, body: bytes) -> dict[str, Any]:
        """Handle /control/plan (POST, JSON), /control/reset and /control/counts."""
        if path == "/control/plan":
            self.plan = FaultPlan.from_json(json.loads(body))
        elif path == "/control/reset":
            with self._lock:
                self.counts = RequestCounts()
        with self._lock:
            return self.counts.to_json()


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256  # with 5, the sixth that connects at once waits for a second


class _Handler(BaseHTTPRequestHandler):
    server_of: FaultyServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the demo shows its own."""

    def _serve(self) -> None:
        server = self.server_of
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        address = urlsplit(self.path)
        if address.path.startswith("/control/"):
            self._send(json.dumps(server.control(address.path, body)).encode())
            return
        given = dict(parse_qsl(address.query, keep_blank_values=True))
        if self.headers.get("Content-Type", "").startswith("application/x-www-form-urlencoded"):
            given |= dict(parse_qsl(body.decode(), keep_blank_values=True))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = GivenRequest(self.command, address.path, headers, given)
        names = server.names(request)
        fault = server.arrived(request, names)
        if server.plan.latency:
            server.stopping.wait(server.plan.latency)
        reply = server.reply(request)
        content = json.dumps(reply.content, ensure_ascii=False).encode()
        try:
            if fault:
                server.misbehaved(fault)
                self._misbehave(HttpFault(fault), content)
            else:
                self._send(content, reply.status)
                if reply.status in (200, 404):
                    server.answered(names)
        except (ConnectionError, TimeoutError):
            self.close_connection = True  # the client has gone

    def _misbehave(self, fault: HttpFault, content: bytes) -> None:
        wait = self.server_of.plan.retry_after
        match fault:
            case HttpFault.RATE_LIMITED:
                self._send(PAGE, 429, {"Retry-After": f"{wait:g}"})
            case HttpFault.RATE_LIMITED_UNTIL:
                until = datetime.now(UTC) + timedelta(seconds=wait)
                self._send(PAGE, 429, {"Retry-After": format_datetime(until, usegmt=True)})
            case HttpFault.REDIRECT:
                self._send(b"", 302, {"Location": f"{self.server_of.url}/elsewhere"})
            case HttpFault.HANG:
                self.server_of.stopping.wait(LONGEST_HANG)
                self.close_connection = True
            case HttpFault.DRIP:
                self._drip()
            case HttpFault.CLOSE:
                self.close_connection = True
            case HttpFault.CUT:
                self._send(content[: len(content) // 2], length=len(content))
                self.close_connection = True
            case HttpFault.HALF:
                self._send(content[: len(content) // 2])
            case HttpFault.HTML:
                self._send(PAGE, headers={"Content-Type": "text/html"})
            case HttpFault.HUGE:
                self._send(b"[" + b" " * HUGE_BYTES + b"]")
            case HttpFault.EMPTY:
                self._send(b"{}")
            case _:
                self._send(PAGE, int(fault))

    def _drip(self) -> None:
        self.close_connection = True
        started = time.monotonic()
        for byte in b"HTTP/1.1 200 OK\r\n" + b"X-Waiting: yes\r\n" * 10_000:
            if self.server_of.stopping.wait(0.05) or time.monotonic() - started > LONGEST_HANG:
                return
            self.wfile.write(bytes([byte]))
            self.server_of.counts.dripped += 1

    def _send(
        self, content: bytes, status: int = 200, headers: Mapping[str, str] | None = None, length: int | None = None
    ) -> None:
        self.send_response(status)
        named = {"Content-Type": "application/json; charset=utf-8", **(headers or {})}
        for name, value in (named | {"Content-Length": str(len(content) if length is None else length)}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)
