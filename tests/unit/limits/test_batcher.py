"""A batcher sends what comes alone at once, and together what comes meanwhile."""

import asyncio

import pytest

from rowmill.limits.batcher import RequestBatcher


class Recorder:
    """Records batches; each is under way until `release` is set."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.release = asyncio.Event()

    async def send(self, batch: list[int]) -> None:
        self.batches.append(batch)
        await self.release.wait()


async def finished(batcher: RequestBatcher[int]) -> None:
    assert batcher.task is not None
    await batcher.task


async def test_items_that_come_while_a_batch_is_under_way_are_sent_together() -> None:
    sent = Recorder()
    batcher = RequestBatcher(sent.send, "test")
    batcher.put(1)
    while not sent.batches:
        await asyncio.sleep(0)
    for item in (2, 3, 4):
        batcher.put(item)
    assert sent.batches == [[1]]
    sent.release.set()
    await finished(batcher)
    assert sent.batches == [[1], [2, 3, 4]]


async def test_a_batch_has_a_largest_size_and_one_item_is_always_sent() -> None:
    sent = Recorder()
    sent.release.set()
    batcher = RequestBatcher(sent.send, "test", size=lambda item: item, most=5)
    for item in (2, 3, 1, 9, 4, 1):
        batcher.put(item)
    await finished(batcher)
    assert sent.batches == [[2, 3], [1], [9], [4, 1]]


async def test_it_goes_on_after_a_pause_and_after_an_error() -> None:
    batches: list[list[int]] = []

    async def send(batch: list[int]) -> None:
        batches.append(batch)
        if batch == [1]:
            raise ValueError("no such item")

    batcher = RequestBatcher(send, "test")
    batcher.put(1)
    with pytest.raises(ValueError, match="no such item"):
        await finished(batcher)
    batcher.put(2)
    await finished(batcher)
    assert batches == [[1], [2]]
