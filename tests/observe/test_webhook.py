"""Alerts go out over HTTP, more than once if need be, and nobody hears of the address."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.error import HTTPError

import pytest

from rowmill.model.errors import BadRequest
from rowmill.observe import webhook
from rowmill.observe.webhook import Webhook

FIELDS = {
    "alert": "NOBODY_WORKS", "severity": "CRITICAL", "queue": "files", "value": None, "limit": 120.0,
    "status": "firing",
}  # fmt: skip


class Receiver(HTTPServer):
    """Answers with the codes that it is given, then with 204, and keeps what it got."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.codes: list[int] = []
        self.got: list[Any] = []


class Answering(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.headers["Content-Type"], json.loads(body)))
        self.send_response(self.server.codes.pop(0) if self.server.codes else 204)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setattr(webhook, "PAUSE", 0.0)
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def address(receiver: Receiver) -> str:
    return f"http://127.0.0.1:{receiver.server_port}/hooks/secret"


async def test_an_alert_goes_out_as_json_with_a_line_for_people(receiver: Receiver) -> None:
    await Webhook(address(receiver))(FIELDS)
    text = "CRITICAL NOBODY_WORKS of queue files, firing: nobody yet (limit 120)"
    assert receiver.got == [("application/json", {**FIELDS, "text": text})]


async def test_a_server_in_trouble_is_asked_again(receiver: Receiver) -> None:
    receiver.codes = [500, 429]
    await Webhook(address(receiver))(FIELDS)
    assert len(receiver.got) == 3


@pytest.mark.parametrize(("code", "tries"), [(404, 1), (503, 3)])
async def test_it_gives_up_and_says_so(receiver: Receiver, code: int, tries: int) -> None:
    receiver.codes = [code] * 5
    with pytest.raises(HTTPError) as caught:
        await Webhook(address(receiver))(FIELDS)
    assert len(receiver.got) == tries
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://example.com", "example.com/hook"])
def test_only_the_web_is_an_address(url: str) -> None:
    with pytest.raises(BadRequest, match="https://"):
        Webhook(url)
