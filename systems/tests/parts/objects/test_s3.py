"""A real S3 server, and the ways in which it and the way to it break."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rowmill_systems.parts.objects import key_of
from rowmill_systems.parts.objects.errors import (
    CorruptObject,
    ForbiddenObject,
    NetworkFailed,
    StorageFailed,
    StorageTimedOut,
)
from rowmill_systems.parts.objects.s3 import S3Storage
from systems.tests.parts.objects.bytes_of import BIG, MEBIBYTE, NOWHERE, keys_in, pattern, put
from systems.tests.parts.objects.conftest import S3
from tests.support.seaweed import ACCESS_KEY, BUCKET, SECRET_KEY, SeaweedServer
from tests.support.wire import wire_to

pytestmark = S3


def storage_at(url: str, prefix: str, *, bucket: str = BUCKET, secret: str = SECRET_KEY, **options: Any) -> S3Storage:
    given: dict[str, Any] = {"region": "us-east-1", "tries": 1, "read_seconds": 10.0, **options}
    return S3Storage(bucket, prefix, endpoint_url=url, access_key=ACCESS_KEY, secret_key=secret, **given)


async def test_a_wrong_secret_is_forbidden_and_not_shown(server: SeaweedServer, prefix: str) -> None:
    storage = storage_at(server.endpoint, prefix, secret="not-the-secret")
    for use in (storage.get(NOWHERE, most=10), storage.exists(NOWHERE), put(storage, b"abc"), keys_in(storage)):
        with pytest.raises(ForbiddenObject) as raised:
            await use
        assert raised.value.__cause__ is not None
        assert "not-the-secret" not in f"{raised.value!r} {raised.value.__cause__!r} {storage!r}"
    await storage.close()


async def test_no_credentials_are_forbidden(
    server: SeaweedServer, prefix: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    storage = S3Storage(BUCKET, prefix, endpoint_url=server.endpoint, region="us-east-1")
    with pytest.raises(ForbiddenObject, match="credentials"):
        await storage.get(NOWHERE, most=10)
    await storage.close()


async def test_credentials_come_from_where_boto3_looks(
    server: SeaweedServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    storage = S3Storage(BUCKET, prefix, endpoint_url=server.endpoint, region="us-east-1")
    assert (await put(storage, b"abc")).size == 3
    await storage.close()


async def test_a_bucket_that_is_not_there_is_not_a_missing_object(server: SeaweedServer, prefix: str) -> None:
    storage = storage_at(server.endpoint, prefix, bucket="no-such-bucket")
    for use in (
        storage.get(NOWHERE, most=10), storage.exists(NOWHERE), put(storage, b"abc"), keys_in(storage), storage.sweep(),
    ):  # fmt: skip
        with pytest.raises(StorageFailed):
            await use
    await storage.close()


async def test_other_bytes_than_were_stored_are_noticed(server: SeaweedServer, bucket: S3Storage) -> None:
    stored = await put(bucket, b"abc")
    server.client().put_object(Bucket=BUCKET, Key=bucket.prefix + stored.key, Body=b"abd")
    with pytest.raises(CorruptObject):
        await bucket.get(stored.key, most=10)


async def test_what_others_put_into_the_bucket_is_not_ours(server: SeaweedServer, bucket: S3Storage) -> None:
    stored = await put(bucket, b"abc")
    for name in ("readme.txt", "acme/readme.txt", "acme/crm/readme.txt", f"acme/crm/deep/{'0' * 64}"):
        server.client().put_object(Bucket=BUCKET, Key=bucket.prefix + name, Body=b"hello")
    assert await keys_in(bucket) == [stored.key]


@pytest.mark.parametrize("size", [300_000, BIG])
async def test_a_connection_cut_in_mid_upload_leaves_nothing_under_the_key(
    server: SeaweedServer, prefix: str, size: int
) -> None:
    direct = storage_at(server.endpoint, prefix)
    async with wire_to(server.port) as wire:
        storage = storage_at(wire.url, prefix)
        wire.left = size // 2
        with pytest.raises(NetworkFailed) as raised:
            await put(storage, pattern(size))
        assert (wire.cuts > 0, raised.value.__cause__ is not None) == (True, True)
        assert await keys_in(direct) == []
        wire.left = None
        stored = await put(storage, pattern(size))
        await storage.close()
    assert await keys_in(direct) == [stored.key]
    assert await direct.get(stored.key, most=size) == pattern(size)
    await direct.close()


async def test_a_short_cut_is_bridged(server: SeaweedServer, prefix: str) -> None:
    async with wire_to(server.port) as wire:
        storage = storage_at(wire.url, prefix, tries=3)
        wire.left, wire.heals = 100_000, True
        stored = await put(storage, pattern(300_000))
        assert wire.cuts == 1
        assert await storage.exists(stored.key)
        await storage.close()


async def test_parts_of_an_upload_that_never_ended_are_swept_after_a_day(
    server: SeaweedServer, bucket: S3Storage
) -> None:
    client = server.client()
    theirs = {"Bucket": BUCKET, "Key": f"{bucket.prefix}another-program"}
    ours = {"Bucket": BUCKET, "Key": bucket.prefix + key_of("acme", "crm", "1" * 64)}
    for upload in (ours, theirs):
        started = client.create_multipart_upload(**upload)
        client.upload_part(**upload, UploadId=started["UploadId"], PartNumber=1, Body=pattern(MEBIBYTE))
    assert await bucket.sweep() == 0, "it may still be on its way"
    assert await bucket.sweep(older=-60.0) == 1
    left = client.list_multipart_uploads(Bucket=BUCKET, Prefix=bucket.prefix)["Uploads"]
    assert [upload["Key"] for upload in left] == [theirs["Key"]]


async def test_a_server_that_says_nothing_is_a_matter_of_time(prefix: str) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    listener = await asyncio.start_server(silent, "127.0.0.1", 0)
    storage = storage_at(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}", prefix, read_seconds=0.2)
    with pytest.raises(StorageTimedOut):
        await storage.get(NOWHERE, most=10)
    await storage.close()
    listener.close()


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (503, "SlowDown", NetworkFailed), (500, "InternalError", NetworkFailed),
        (429, "TooManyRequests", NetworkFailed),
        (403, "RequestTimeTooSkewed", NetworkFailed), (400, "ExpiredToken", NetworkFailed),
        (403, "AccessDenied", ForbiddenObject), (507, "", NetworkFailed),
    ],
)  # fmt: skip
async def test_what_a_server_answers(prefix: str, status: int, code: str, expected: type[Exception]) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = f"<Error><Code>{code}</Code><Message>of document 4711</Message></Error>".encode() if code else b""
        head = f"HTTP/1.1 {status} no\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()

    listener = await asyncio.start_server(answer, "127.0.0.1", 0)
    storage = storage_at(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}", prefix)
    with pytest.raises(expected, match=code or str(status)) as raised:
        await storage.get(NOWHERE, most=10)
    assert "4711" not in str(raised.value)
    await storage.close()
    listener.close()


@pytest.mark.slow
async def test_a_server_that_is_killed_and_comes_back(server: SeaweedServer, prefix: str) -> None:
    storage = storage_at(server.endpoint, prefix)
    stored = await put(storage, pattern(100_000))
    big = await put(storage, pattern(40 * MEBIBYTE, 1))
    download = await storage.open(big.key)
    async with storage.receive() as incoming:
        await incoming.write(b"on its way")
        server.kill()
        for use in (storage.get(stored.key, most=100_000), storage.exists(stored.key), put(storage, b"abc")):
            with pytest.raises(NetworkFailed) as raised:
                await use
            assert raised.value.__cause__ is not None
        with pytest.raises(NetworkFailed):
            assert len([chunk async for chunk in download]) == 0
        await asyncio.to_thread(server.start)
        again = await incoming.keep("acme", "crm")
    assert await storage.get(stored.key, most=100_000) == pattern(100_000)
    assert await storage.get(again.key, most=100) == b"on its way"
    await storage.close()
