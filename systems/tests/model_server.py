"""An OpenAI-compatible server on loopback: `/chat/completions`, `/embeddings` and `/models`. Misbehaves on demand."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Schemas(StrEnum):
    """What the server makes of `response_format`."""

    KNOWN = "known"
    IGNORED = "ignored"
    """It answers with JSON between fences, after some words."""
    REJECTED = "rejected"
    """It answers 400."""


@dataclass(frozen=True)
class Reply:
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    raw: bytes | None = None
    """Sent as it is, instead of an answer."""
    hangs: bool = False
    cut_at: int | None = None
    """The connection is cut after so many bytes of the body."""
    drips: bool = False
    """A byte at a time, without an end."""


@dataclass(frozen=True)
class Asked:
    path: str
    headers: Mapping[str, str]
    body: Any

    @property
    def material(self) -> Any:
        """What the model was given to read."""
        return json.loads(self.body["messages"][1]["content"])


@dataclass
class ModelServer:
    url: str = ""
    schemas: Schemas = Schemas.KNOWN
    reply: Callable[[Asked, int], Reply] = lambda asked, number: answer()
    """To the question of that number, from 1."""
    embedded: Callable[[Asked, int], Reply] = lambda asked, number: vectors_of(asked.body["input"])
    """To the request for vectors of that number, from 1."""
    looked: Callable[[], Reply] = lambda: Reply(body=b'{"data": []}')
    """To GET /models."""
    asked: list[Asked] = field(default_factory=list)
    _tasks: set["asyncio.Task[None]"] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._send(self._reply(await read_request(reader)), writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client has gone, or the test is over
        finally:
            writer.transport.abort() if writer.transport.is_closing() else writer.close()
            self._tasks.discard(task)

    def _reply(self, asked: Asked) -> Reply:
        if asked.path.endswith("/models"):
            return self.looked()
        self.asked.append(asked)
        if asked.path.endswith("/embeddings"):
            return self.embedded(asked, len(self.asked))
        strict = "response_format" in asked.body
        if strict and self.schemas is Schemas.REJECTED:
            return Reply(400, body=b'{"error": {"message": "response_format is not known"}}')
        reply = self.reply(asked, len(self.asked))
        return fenced(reply) if self.schemas is Schemas.IGNORED and reply.status == 200 else reply

    async def _send(self, reply: Reply, writer: asyncio.StreamWriter) -> None:
        if reply.hangs:
            await asyncio.Event().wait()
        if reply.raw is not None:
            writer.write(reply.raw)
            await writer.drain()
            return
        length = "1000000" if reply.drips else str(len(reply.body))
        headers = {"Content-Type": "application/json", "Content-Length": length, "Connection": "close", **reply.headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"HTTP/1.1 {reply.status} told\r\n{head}\r\n".encode())
        while reply.drips:
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.01)
        writer.write(reply.body[: reply.cut_at])
        await writer.drain()
        if reply.cut_at is not None:
            writer.transport.abort()

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def read_request(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Asked(head[0].split()[1], headers, json.loads(body) if body else None)


def answer(suggestions: Sequence[Any] = (), unmapped: Sequence[Any] = (), *, used: Any = 100, **more: Any) -> Reply:
    """What a model says that keeps to the schema."""
    return saying(json.dumps({"suggestions": suggestions, "unmapped": unmapped, **more}), used=used)


def saying(text: Any, *, used: Any = 100, finish: str = "stop", **message: Any) -> Reply:
    """`used` is what it says of tokens: a number, or anything else in its place; None for nothing."""
    usage = {"total_tokens": used} if isinstance(used, int) else used
    choice = {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}
    body = {"choices": [choice]} | ({} if usage is None else {"usage": usage})
    return Reply(body=json.dumps(body).encode())


def vectors_of(texts: Sequence[str], *, used: int | None = 100) -> Reply:
    """Vectors of three numbers that depend on the texts; in the wrong order, with their indexes."""
    data = [{"index": place, "embedding": [len(text), text.count("a"), 1]} for place, text in enumerate(texts)]
    body = {"data": data[::-1]} | ({} if used is None else {"usage": {"total_tokens": used}})
    return Reply(body=json.dumps(body).encode())


def fenced(reply: Reply) -> Reply:
    with suppress(ValueError, KeyError, TypeError):
        body = json.loads(reply.body)
        message = body["choices"][0]["message"]
        message["content"] = f"<think>{{so}} it is</think>Here you are:\n```json\n{message['content']}\n```\nDone."
        return Reply(reply.status, reply.headers, json.dumps(body).encode())
    return reply


@asynccontextmanager
async def model_server() -> AsyncIterator[ModelServer]:
    found = ModelServer()
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    found.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield found
    finally:
        server.close()
        await found.close()
