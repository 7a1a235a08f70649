"""What is special about vectors on Qdrant: a server that misbehaves."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest
from pydantic import SecretStr
from qdrant_client import models

from rowmill_systems.parts.vectors import open_vectors
from rowmill_systems.parts.vectors.errors import CollectionMissing, VectorsRefused, VectorsUnavailable
from rowmill_systems.parts.vectors.qdrant import QdrantVectors, point_id
from systems.tests.parts.vectors.points import document, every_verb, points, some_vectors

DOC = document(1)
HTML = b"<html><body>planted-secret</body></html>"


def response(status: int, body: bytes, kind: str = "application/json", *, length: int | None = None) -> bytes:
    head = "HTTP/1.1 {} X\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n"
    return head.format(status, kind, len(body) if length is None else length).encode() + body


def said(status: int, error: str) -> bytes:
    return response(status, json.dumps({"status": {"error": error}, "time": 0.1}).encode())


@asynccontextmanager
async def serving(answer: bytes | None) -> AsyncIterator[str]:
    """Serve the same response to every request; None: never respond."""
    tasks: set[asyncio.Task[None] | None] = set()

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        await reader.readuntil(b"\r\n\r\n")
        if answer is None:
            await reader.read()
        else:
            writer.write(answer)
            await writer.drain()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    server = await asyncio.start_server(respond, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        await asyncio.gather(*filter(None, tasks))


BROKEN: dict[str, bytes | None] = {
    "unavailable": response(503, HTML, "text/html"),
    "error": said(500, "planted-secret"),
    "too many": said(429, "planted-secret"),
    "page": response(200, HTML, "text/html"),
    "page not found": response(404, HTML, "text/html"),
    "other not found": said(404, "planted-secret"),
    "empty": response(200, b""),
    "no result": response(200, b"{}"),
    "null": response(200, b'{"result": null, "status": "ok", "time": 0.1}'),
    "cut off": response(200, b'{"result": ', length=100),
    "closed": b"",
    "hangs": None,
}  # fmt: skip


@pytest.mark.parametrize("how", BROKEN)
async def test_a_server_that_misbehaves_never_looks_empty(how: str) -> None:
    async with serving(BROKEN[how]) as url:
        store = QdrantVectors(url, seconds=0.1 if how == "hangs" else 30)
        for name, verb in every_verb(store, DOC, some_vectors(1)[0], points(DOC, 1)).items():
            with pytest.raises(VectorsUnavailable) as raised:
                await verb()
            assert "planted" not in str(raised.value), name
            assert raised.value.__cause__ is not None
        with pytest.raises(VectorsUnavailable):
            await store.create("kb_1", 8)
        await store.close()


@pytest.mark.parametrize("status", [401, 403])
async def test_a_server_that_refuses_the_key(status: int) -> None:
    async with serving(said(status, "planted-secret")) as url:
        store = QdrantVectors(url)
        with pytest.raises(VectorsRefused, match="look at its key"):
            await store.count("kb_1", DOC)
        await store.close()


async def test_what_qdrant_says_of_a_missing_collection() -> None:
    async with serving(said(404, "Not found: Collection `kb_1` doesn't exist!")) as url:
        store = QdrantVectors(url)
        with pytest.raises(CollectionMissing):
            await store.put("kb_1", points(DOC, 1))
        assert await store.delete("kb_1", DOC) == 0
        await store.close()


@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
async def test_the_key_is_sent_and_not_shown() -> None:
    heads: list[bytes] = []

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(said(500, "no"))
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(respond, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        store = open_vectors(url, api_key=SecretStr("planted-secret"))
        with pytest.raises(VectorsUnavailable) as raised:
            await store.count("kb_1", DOC)
        await store.close()
    assert b"api-key: planted-secret" in heads[0]
    assert "planted" not in f"{raised.value} {raised.value.__cause__} {vars(store)!r} {store!r}"


async def test_a_change_that_is_not_confirmed_is_no_success(
    local: QdrantVectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    await local.create("kb_1", 8)
    client = local._opened()
    for verb, call in (
        ("upsert", lambda: local.put("kb_1", points(DOC, 1))),
        ("delete", lambda: local.delete("kb_1", DOC)),
    ):
        real: Callable = getattr(client, verb)

        async def only_accepted(*given: object, real: Callable = real, **options: object) -> object:
            result = await real(*given, **options)
            return result.model_copy(update={"status": "acknowledged"})

        monkeypatch.setattr(client, verb, only_accepted, raising=False)
        with pytest.raises(VectorsUnavailable, match="not confirmed"):
            await call()


async def test_points_of_others_are_not_seen(local: QdrantVectors) -> None:
    client = local._opened()
    await client.create_collection("theirs", {"named": models.VectorParams(size=3, distance=models.Distance.COSINE)})
    await local.create("kb_1", 8)
    await client.upsert("kb_1", [models.PointStruct(id=7, vector=[0.5] * 8, payload={"title": "x"})])
    await local.put("kb_1", points(DOC, 2))
    assert [found.name async for found in local.collections()] == ["kb_1"]
    assert [sum(each.counts.values()) async for each in local.documents()] == [2]
    assert len(await local.search("kb_1", some_vectors(1)[0], 9)) == 2


def test_ids_are_stable_and_sorted_as_their_documents() -> None:
    documents = sorted(uuid4() for _ in range(200))
    ids = [point_id(each, 1, 0) for each in documents]
    assert ids == sorted(ids)
    places = {point_id(DOC, generation, number) for generation in range(30) for number in range(300)}
    assert len(places) == 9_000
    assert point_id(DOC, 3, 17) in places
