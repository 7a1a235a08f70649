"""What every storage promises."""

import asyncio
import hashlib
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

from rowmill import reconcile
from rowmill_systems.parts.objects import Storage, key_of
from rowmill_systems.parts.objects.errors import ForbiddenObject, MissingObject, ObjectTooLarge
from rowmill_systems.parts.objects.folder import FolderStorage
from rowmill_systems.parts.objects.s3 import S3Storage
from systems.tests.parts.objects.bytes_of import BIG, NOWHERE, keys_in, pattern, put


@pytest.mark.parametrize("size", [0, 1, 100_000, BIG])
async def test_what_was_kept_is_given_back(storage: Storage, size: int) -> None:
    """F12."""
    content = pattern(size)
    stored = await put(storage, content)
    digest = hashlib.sha256(content).hexdigest()
    assert (stored.key, stored.size, stored.sha256) == (f"acme/crm/{digest}", size, digest)
    assert await storage.get(stored.key, most=size) == content
    assert await storage.exists(stored.key)
    async with await storage.open(stored.key) as download:
        assert download.size == size
        assert b"".join([chunk async for chunk in download]) == content


async def test_bytes_on_their_way_know_their_size_and_hash(storage: Storage) -> None:
    async with storage.receive() as incoming:
        await incoming.write(b"ab")
        await incoming.write(b"c")
        assert (incoming.size, incoming.sha256) == (3, hashlib.sha256(b"abc").hexdigest())


async def test_the_same_bytes_of_one_project_are_one_object(storage: Storage) -> None:
    stored = await asyncio.gather(*(put(storage, pattern(200_000)) for _ in range(5)))
    other = await put(storage, pattern(200_000), ("acme", "erp"))
    assert len(set(stored)) == 1
    assert await keys_in(storage) == [stored[0].key, other.key]
    assert await storage.get(stored[0].key, most=200_000) == pattern(200_000)


async def test_nothing_is_seen_before_it_is_kept(storage: Storage) -> None:
    await put(storage, b"another")
    async with storage.receive() as incoming:
        await incoming.write(b"half")
        assert not await storage.exists(key_of("acme", "crm", incoming.sha256))
        assert len(await keys_in(storage)) == 1


@pytest.mark.parametrize("error", [RuntimeError, asyncio.CancelledError])
async def test_an_upload_that_breaks_off_leaves_nothing(storage: Storage, error: type[BaseException]) -> None:
    await put(storage, b"another")
    with suppress(error):
        async with storage.receive() as incoming:
            await incoming.write(pattern(BIG))
            raise error
    assert len(await keys_in(storage)) == 1
    assert await storage.sweep(older=-60.0) == 0, "nothing is left to sweep"


async def test_bytes_are_kept_once(storage: Storage) -> None:
    async with storage.receive() as incoming:
        await incoming.write(b"abc")
        await incoming.keep("acme", "crm")
        with pytest.raises(ValueError, match="already"):
            await incoming.keep("acme", "erp")


async def test_more_bytes_than_allowed_are_refused_as_they_come(storage: Storage) -> None:
    await put(storage, b"another")
    async with storage.receive(most=10) as incoming:
        await incoming.write(b"12345678")
        await incoming.write(b"90")
        with pytest.raises(ObjectTooLarge):
            await incoming.write(b"1")
    assert len(await keys_in(storage)) == 1


async def test_an_object_of_more_bytes_than_allowed_is_not_read(storage: Storage) -> None:
    stored = await put(storage, b"12345")
    with pytest.raises(ObjectTooLarge):
        await storage.get(stored.key, most=4)


async def test_what_is_not_there(storage: Storage) -> None:
    """F5."""
    await put(storage, b"another")
    assert not await storage.exists(NOWHERE)
    with pytest.raises(MissingObject):
        await storage.get(NOWHERE, most=10)
    with pytest.raises(MissingObject) as raised:
        await storage.open(NOWHERE)
    assert raised.value.__cause__ is not None
    await storage.delete(NOWHERE)


async def test_what_was_deleted_is_gone_and_may_come_again(storage: Storage) -> None:
    stored = await put(storage, b"abc")
    for _ in range(2):
        await storage.delete(stored.key)
        assert not await storage.exists(stored.key)
    assert await keys_in(storage) == []
    assert await put(storage, b"abc") == stored
    assert await storage.get(stored.key, most=3) == b"abc"


async def test_a_download_may_end_early_and_twice(storage: Storage) -> None:
    stored = await put(storage, pattern(BIG))
    download = await storage.open(stored.key)
    async for chunk in download:
        assert pattern(BIG).startswith(chunk)
        break
    await download.aclose()
    await download.aclose()
    assert await storage.exists(stored.key)


OWNERS = [("a", "1"), ("a-b", "1"), ("a.b", "1"), ("a", "1-2"), ("B", "x"), (7, "x"), ("ä/../é", "x"), ("a0", "x")]


async def test_keys_come_in_the_order_of_their_bytes_with_facts(storage: Storage) -> None:
    before = datetime.now(UTC) - timedelta(seconds=2)
    for owner in OWNERS:
        for content in (b"one", b"two"):
            await put(storage, content, owner)
    listed = [item async for item in storage.keys()]  # noqa: SIM118 it is no dict
    keys = [key for key, _ in listed]
    assert keys == sorted(keys, key=str.encode)
    assert len(set(keys)) == 2 * len(OWNERS)
    for _, facts in listed:
        at = facts["at"]
        assert isinstance(at, datetime)
        assert before <= at <= datetime.now(UTC) + timedelta(seconds=2)
        assert facts["size"] == 3
    assert reconcile.inventory(storage.keys).time_of(listed[0][1]) is not None


HASH = "0" * 64
NO_KEYS = [
    "", "../../../etc/passwd", f"acme/../{HASH}", f"acme/./{HASH}", f"/acme/crm/{HASH}", f"acme//{HASH}", "/", "a/",
    f"acme/crm/{HASH}\n", f"acme/cr\0m/{HASH}", f".incoming/crm/{HASH}", f"acme\\crm\\{HASH}", "x" * 300, "a\ud800",
]  # fmt: skip


async def test_what_is_no_key_is_forbidden(storage: Storage) -> None:
    for key in NO_KEYS:
        for use in (storage.get(key, most=10), storage.open(key), storage.delete(key), storage.exists(key)):
            with pytest.raises(ForbiddenObject):
                await use


async def test_what_others_put_there_can_be_read_under_its_own_key(storage: Storage) -> None:
    """Files that were there before intake: their keys say nothing of their bytes."""
    kept = await put(storage, b"of ours")
    for key in ("old.pdf", "uploads/2024/März & Co.pdf"):
        with pytest.raises(MissingObject):
            await storage.get(key, most=10)
        await place(storage, key, b"of others")
        assert await storage.get(key, most=10) == b"of others"
        assert await storage.exists(key)
    assert await keys_in(storage) == [kept.key], "what is not ours is not listed"


async def place(storage: Storage, key: str, content: bytes) -> None:
    """As another program would."""
    if isinstance(storage, FolderStorage):
        path = storage.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return
    assert isinstance(storage, S3Storage)
    client = storage._client
    await asyncio.to_thread(client.put_object, Bucket=storage.bucket, Key=storage.prefix + key, Body=content)


async def test_many_at_once(storage: Storage) -> None:
    contents = [pattern(50_000, seed) for seed in range(40)]
    stored = await asyncio.gather(*(put(storage, content) for content in contents))
    found = await asyncio.gather(*(storage.get(one.key, most=50_000) for one in stored))
    assert list(found) == contents
    assert await keys_in(storage) == sorted(one.key for one in stored)


async def test_a_writer_that_is_cancelled_harms_nobody(storage: Storage) -> None:
    """Its thread may still write: the file must not be closed under it, and its place given to another."""

    async def upload(seed: int) -> None:
        await put(storage, pattern(3_000_000, seed))

    tasks = [asyncio.create_task(upload(seed)) for seed in range(12)]
    for task in tasks[::2]:
        await asyncio.sleep(0)
        task.cancel()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(one) for one in done[1::2]] == [type(None)] * 6
    for key in await keys_in(storage):
        await storage.get(key, most=3_000_000)
    assert await storage.sweep(older=-60.0) == 0


async def test_objects_of_one_owner_are_listed_alone(storage: Storage) -> None:
    for owner, collection in (("kb-1", "a.1"), ("kb-1", "a.2"), ("kb-1", "b.1"), ("kb-10", "a.1")):
        async with storage.receive() as incoming:
            await incoming.write(f"{owner} {collection}".encode())
            await incoming.keep(owner, collection)

    async def listed(*which: str) -> list[str]:
        return [key.rpartition("/")[0] async for key, _ in storage.keys(*which)]

    assert await listed("kb-1") == ["kb-1/a.1", "kb-1/a.2", "kb-1/b.1"]
    assert await listed("kb-1", "a.") == ["kb-1/a.1", "kb-1/a.2"]
    assert await listed("kb-2") == []
