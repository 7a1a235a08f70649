"""Servers that misbehave: what it is called, what it costs, and what the fleet knows of it."""

import asyncio
from typing import Any

import pytest

import rowmill as rm
from rowmill_systems.intake.fields.model import ModelMapper
from rowmill_systems.parts.models import ModelAnswerUnreadable, ModelTimedOut
from systems.tests.intake.model.conftest import Maker
from systems.tests.intake.model.paper import CATALOGUE, PAPER, RIGHT
from systems.tests.model_server import ModelServer, Reply, answer, saying
from tests.support.nats import free_port

HANGS = Reply(hangs=True)


async def asked(mapper: ModelMapper) -> Any:
    return await mapper.map(PAPER, doc_type=None, catalogue=CATALOGUE)


async def failed(mapper: ModelMapper) -> rm.errors.WorkError:
    with pytest.raises(rm.errors.WorkError) as raised:
        await asked(mapper)
    return raised.value


async def test_a_429_keeps_everybody_away_for_as_long_as_it_says(
    server: ModelServer, mapper: Maker, limit: rm.limits.Limit
) -> None:
    server.reply = lambda asked, number: Reply(429, {"Retry-After": "7"})
    error = await failed(mapper())
    assert isinstance(error, rm.RateLimited)
    assert error.retry_after == 7.0
    state = await limit.state()
    assert (state.parked_until is not None, state.spent, state.slots) == (True, 0, 0)
    with pytest.raises(rm.errors.Limited):
        await asked(mapper())
    assert len(server.asked) == 1, "nobody calls before that"


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (500, rm.errors.ProviderDown, "provider_down"), (503, rm.errors.ProviderDown, "provider_down"),
        (408, rm.errors.ProviderDown, "provider_down"), (401, rm.errors.ProviderRefused, "provider_refused"),
        (403, rm.errors.ProviderRefused, "provider_refused"), (404, rm.errors.ProviderRefused, "provider_refused"),
        (302, rm.errors.ProviderRefused, "provider_refused"), (400, rm.PermanentError, "model_rejected"),
        (413, rm.PermanentError, "model_rejected"), (422, rm.PermanentError, "model_rejected"),
    ],
)  # fmt: skip
async def test_a_status_that_is_not_well(
    server: ModelServer, mapper: Maker, limit: rm.limits.Limit, status: int, kind: type[rm.errors.WorkError], code: str
) -> None:
    server.reply = lambda asked, number: Reply(status, {"Location": "/elsewhere"}, b'{"error": "no"}')
    error = await failed(mapper())
    assert (isinstance(error, kind), error.code) == (True, code)
    state = await limit.state()
    assert (state.spent, state.reserved, state.slots) == (0, 0, 0)
    assert state.available == (kind is not rm.errors.ProviderRefused)


async def test_a_server_that_is_not_there(mapper: Maker, limit: rm.limits.Limit) -> None:
    error = await failed(mapper(base_url=f"http://127.0.0.1:{free_port()}/v1"))
    assert isinstance(error, rm.errors.ProviderDown)
    assert error.__cause__ is not None
    assert (await limit.state()).spent == 0


CUT = [Reply(body=b"{" * 5000, cut_at=2000), Reply(raw=b""), Reply(raw=b"\x16\x03 garbage\r\n\r\n"),
       Reply(headers={"Content-Encoding": "gzip"}, body=b"not gzip")]  # fmt: skip


@pytest.mark.parametrize("reply", CUT, ids=["cut", "closed", "garbage", "not gzip"])
async def test_a_connection_that_breaks(server: ModelServer, mapper: Maker, reply: Reply) -> None:
    server.reply = lambda asked, number: reply
    assert isinstance(await failed(mapper()), rm.errors.ProviderDown)


@pytest.mark.parametrize("reply", [HANGS, Reply(drips=True)], ids=["hangs", "drips"])
async def test_a_question_that_takes_too_long_is_one_of_its_attempts(
    server: ModelServer, mapper: Maker, limit: rm.limits.Limit, reply: Reply
) -> None:
    server.reply = lambda asked, number: reply
    error = await failed(mapper(timeout=0.3))
    assert isinstance(error, ModelTimedOut)
    assert error.__cause__ is not None
    assert (await limit.state()).spent > 0, "the server may have done the work"


@pytest.mark.parametrize("looked", [HANGS, Reply(502)], ids=["hangs", "502"])
async def test_a_server_that_hangs_as_a_whole_is_down(server: ModelServer, mapper: Maker, looked: Reply) -> None:
    server.reply = lambda asked, number: HANGS
    server.looked = lambda: looked
    assert isinstance(await failed(mapper(timeout=0.3)), rm.errors.ProviderDown)


GARBAGE = {
    "not json": Reply(body=b"<html>log in, please</html>"),
    "endless": Reply(body=b" " * 5_000_000),
    "prose": saying("I can't find any fields."),
    "half": saying('{"suggestions": [{"field": "tot', finish="length"),
}


@pytest.mark.parametrize("reply", list(GARBAGE.values()), ids=list(GARBAGE))
async def test_an_answer_that_cannot_be_read_twice(server: ModelServer, mapper: Maker, reply: Reply) -> None:
    server.reply = lambda asked, number: reply
    error = await failed(mapper())
    assert (type(error), error.code) == (ModelAnswerUnreadable, "model_answer")
    assert len(server.asked) == 2


async def test_an_answer_that_can_be_read_at_the_second_try(server: ModelServer, mapper: Maker) -> None:
    server.reply = lambda asked, number: answer(RIGHT) if number == 2 else saying("Let me see")
    assert len((await asked(mapper())).suggestions) == 4


@pytest.mark.parametrize(
    "reply", [saying(None, refusal="I'd rather not"), saying("", finish="content_filter")], ids=["refusal", "filter"]
)
async def test_a_model_that_refuses_is_not_asked_again(server: ModelServer, mapper: Maker, reply: Reply) -> None:
    server.reply = lambda asked, number: reply
    assert (await failed(mapper())).code == "model_rejected"
    assert len(server.asked) == 1


@pytest.mark.parametrize(("used", "spent"), [(321, 321), (None, None), ({"total_tokens": -5}, None)])
async def test_tokens_are_spent_as_the_server_says_or_as_was_estimated(
    server: ModelServer, mapper: Maker, limit: rm.limits.Limit, used: Any, spent: int | None
) -> None:
    reserved: list[Any] = []

    def reply(asked: Any, number: int) -> Reply:
        reserved.append(sum(len(message["content"]) for message in asked.body["messages"]))
        return answer(RIGHT, used=used)

    server.reply = reply
    await asked(mapper(max_output_tokens=500))
    state = await limit.state()
    assert state.reserved == 0
    if spent is None:
        assert reserved[0] / 3 + 500 <= state.spent <= reserved[0] + 500
    else:
        assert state.spent == spent


async def test_tokens_are_reserved_while_the_server_thinks(server: ModelServer, mapper: Maker, mill: rm.Mill) -> None:
    small = mill.limit("small", budget=rm.limits.Budget(6_000, per="day"))
    arrived = asyncio.Event()

    def reply(asked: Any, number: int) -> Reply:
        arrived.set()
        return HANGS

    server.reply = reply
    first = asyncio.create_task(asked(mapper(limit=small)))
    await arrived.wait()
    assert 4_000 < (await small.state()).reserved <= 6_000
    with pytest.raises(rm.errors.Limited):
        await asked(mapper(limit=small))
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert len(server.asked) == 1


async def test_the_calls_of_one_document_wait_for_room(server: ModelServer, mapper: Maker, mill: rm.Mill) -> None:
    slow = mill.limit("slow", rate=rm.limits.Rate(1, per=0.2))
    server.reply = lambda asked, number: answer(RIGHT) if number == 2 else saying("Let me see")
    assert len((await asked(mapper(limit=slow, wait=20.0))).suggestions) == 4
