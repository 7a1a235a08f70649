"""A file is received as it comes in, and whole or not at all."""

import asyncio
from collections.abc import AsyncIterator, Iterable

import httpx2
import pytest
from fastapi import FastAPI, Request

from rowmill.web.guard import Guard
from rowmill.web.problems import answer_with_problems
from rowmill.web.receiving import receive_file
from tests.support.web import client_of

FORM = {"content-type": "multipart/form-data; boundary=b"}


class Receiver:
    """An application that receives files, and what it has received of each."""

    def __init__(self, most: int = 1_000_000) -> None:
        self.sizes: list[int] = []
        self.whole: dict[str, bytes] = {}
        self.kinds: list[str | None] = []
        self.first = asyncio.Event()
        self.ended = asyncio.Event()
        self.app = FastAPI()
        self.app.add_middleware(Guard, most=most)
        answer_with_problems(self.app, {})

        @self.app.post("/")
        async def receive(request: Request, filename: str | None = None) -> dict[str, str]:
            try:
                file, whole = await receive_file(request, filename=filename), b""
                async for chunk in file.chunks:
                    self.sizes.append(len(chunk))
                    self.first.set()
                    whole += chunk
                self.whole[file.filename] = whole
                self.kinds.append(file.media_type)
                return {"filename": file.filename}
            finally:
                self.ended.set()


async def sent(receiver: Receiver, content: bytes | Iterable[bytes], **more: object) -> httpx2.Response:
    async with client_of(receiver.app) as client:
        return await client.post("/", content=content, headers=FORM, **more)  # type: ignore[arg-type]


def part(name: str, content: bytes, filename: str | None = None) -> bytes:
    said = b"" if filename is None else f'; filename="{filename}"'.encode()
    return b'--b\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n' % (name.encode(), said, content)


CLOSE = b"--b--\r\n"


async def test_a_form_and_a_plain_body_give_the_same_file() -> None:
    receiver, content = Receiver(), bytes(range(256)) * 2000
    async with client_of(receiver.app) as client:
        form = await client.post("/", data={"note": "x" * 100_000}, files={"file": ('ä "b".bin', content, "a/b")})
        plain = await client.post("/?filename=plain.bin", content=content, headers={"content-type": "c/d"})
    assert (form.status_code, plain.status_code) == (200, 200)
    assert list(receiver.whole.values()) == [content, content]
    assert list(receiver.whole)[1] == "plain.bin"
    assert receiver.kinds == ["a/b", "c/d"]


async def test_it_arrives_before_all_of_it_was_sent() -> None:
    receiver = Receiver()

    async def body() -> AsyncIterator[bytes]:
        yield part("file", b"first", "a.txt")[:-2]
        await asyncio.wait_for(receiver.first.wait(), 30)
        yield b" second\r\n" + CLOSE

    answer = await sent(receiver, body())  # type: ignore[arg-type]
    assert answer.status_code == 200
    assert receiver.whole == {"a.txt": b"first second"}


@pytest.mark.parametrize("step", [1, 7, 64])
async def test_it_does_not_matter_where_the_network_cuts_it(step: int) -> None:
    receiver, content = Receiver(), b"a\r\n--b\r\r\n--c--\r\n-" * 5

    async def body() -> AsyncIterator[bytes]:
        whole = part("note", b"n") + part("file", content, "a.txt") + CLOSE
        for start in range(0, len(whole), step):
            yield whole[start : start + step]

    content = content.replace(b"--b", b"--d")
    assert (await sent(receiver, body())).status_code == 200  # type: ignore[arg-type]
    assert receiver.whole == {"a.txt": content}


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (part("file", b"one", "a") + part("file", b"two", "b") + CLOSE, 422, "one_file"),
        (part("file", b"one", "a"), 400, "incomplete"),
        (part("note", b"one") + CLOSE, 422, "no_file"),
        (b"hello", 400, "malformed"),
        (b"--b\r\nX: " + b"y" * 20_000 + b"\r\n\r\n", 400, "malformed"),
        (part("file", b"x" * 3000, "a") + CLOSE, 200, None),
        (part("file", b"x" * 300_000, "a") + CLOSE, 413, "too_large"),
    ],
)
async def test_what_is_not_one_whole_file_is_refused(body: bytes, status: int, code: str | None) -> None:
    receiver = Receiver(most=100_000)
    answer = await sent(receiver, body)
    assert (answer.status_code, answer.json().get("code")) == (status, code)
    assert len(receiver.whole) == (status == 200)


async def test_a_plain_body_needs_a_name_and_a_form_its_boundary() -> None:
    async with client_of(Receiver().app) as client:
        nameless = await client.post("/", content=b"x")
        boundless = await client.post("/", content=b"x", headers={"content-type": "multipart/form-data"})
        endless = {"content-type": f"multipart/form-data; boundary={'b' * 300}"}
        too_long = await client.post("/", content=b"x", headers=endless)
    assert (nameless.status_code, nameless.json()["code"]) == (422, "no_filename")
    assert (boundless.status_code, boundless.json()["code"]) == (400, "malformed")
    assert (too_long.status_code, too_long.json()["code"]) == (400, "malformed")


@pytest.mark.parametrize("query", ["", "?filename=a"])
async def test_an_upload_that_breaks_off_is_never_whole(query: str) -> None:
    receiver = Receiver()
    async with client_of(receiver.app) as client:
        port = client.base_url.port
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        kind = "multipart/form-data; boundary=b" if not query else "text/plain"
        head = f"POST /{query} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\nContent-Length: 5000\r\n\r\n"
        writer.write(head.encode() + part("file", b"x" * 100, "a"))
        await writer.drain()
        await asyncio.wait_for(receiver.first.wait(), 30)
        writer.close()
        await asyncio.wait_for(receiver.ended.wait(), 30)
    assert receiver.whole == {}
