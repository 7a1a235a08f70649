"""Raw HTTP, so that replies can be cut, slowed down, or sent with a wrong length."""

import asyncio
import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    headers: Mapping[str, str]
    parameters: Mapping[str, str]
    """Parameters of the address and of the form."""
    body: bytes

    @property
    def question(self) -> str:
        return json.dumps([self.path, sorted(self.parameters.items())])


@dataclass(frozen=True, slots=True)
class Reply:
    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    declared: int | None = None
    """The declared length, if it differs from that of the body."""
    drips: bool = False


def dumped(answer: Any) -> bytes:
    return json.dumps(answer, ensure_ascii=False).encode()


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    except asyncio.IncompleteReadError:
        return None
    method, target, _ = head[0].split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    address = urlsplit(target)
    given = dict(parse_qsl(address.query, keep_blank_values=True))
    if headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        given |= dict(parse_qsl(body.decode(), keep_blank_values=True))
    return Request(method, unquote(address.path), headers, given, body)


async def send(writer: asyncio.StreamWriter, reply: Reply) -> None:
    packed = gzip.compress(reply.body, 1) if reply.declared is None and not reply.drips else reply.body
    length = len(packed) if reply.declared is None else reply.declared
    headers = {"Content-Type": "application/json", "Content-Length": str(length), **reply.headers}
    if packed is not reply.body:
        headers["Content-Encoding"] = "gzip"
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(f"HTTP/1.1 {reply.status} reply\r\n{lines}\r\n".encode())
    if reply.drips:
        for place in range(len(packed) - 1):
            writer.write(packed[place : place + 1])
            await writer.drain()
            await asyncio.sleep(0.05)
        await asyncio.Event().wait()
    writer.write(packed)
    await writer.drain()
