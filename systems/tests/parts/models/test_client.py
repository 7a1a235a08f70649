"""Chat and embeddings: what is sent, what it costs, what is cached, and what a server that misbehaves does to it.

Intake's tests of models drive the rest of the client's failures.
"""

import numpy as np
import pytest

import rowmill as rm
from rowmill_systems.parts.embeddings import EndpointEmbedder
from rowmill_systems.parts.models import ModelAnswerUnreadable, ModelRejected, ModelTimedOut
from rowmill_systems.parts.models.client import BATCH_TEXTS, BATCH_TOKENS
from rowmill_systems.parts.services.cache import AnswerCache
from systems.tests.model_server import Asked, ModelServer, Reply, Schemas, saying, vectors_of
from systems.tests.parts.models.conftest import SECRET, ClientMaker

QUESTION = [{"role": "user", "content": "Which city?"}]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


async def test_a_chat_sends_the_question_and_spends_the_tokens_that_the_server_reports(
    server: ModelServer, client: ClientMaker, limit: rm.limits.Limit
) -> None:
    server.reply = lambda asked, number: saying("Bern", used=77)
    reply = await client().chat(QUESTION, max_tokens=50)
    assert (reply.text, reply.refused) == ("Bern", False)
    (asked,) = server.asked
    assert (asked.path, asked.headers["authorization"]) == ("/v1/chat/completions", f"Bearer {SECRET}")
    assert asked.body == {"model": "m", "messages": QUESTION, "temperature": 0.0, "max_tokens": 50}
    state = await limit.state()
    assert (state.spent, state.reserved) == (77, 0)


async def test_a_server_that_knows_no_schemas_is_asked_without_one_from_then_on(
    server: ModelServer, client: ClientMaker
) -> None:
    server.schemas = Schemas.REJECTED
    server.reply = lambda asked, number: saying('{"city": "Bern"}')
    one = client()
    for _ in range(2):
        assert (await one.chat(QUESTION, max_tokens=50, schema=SCHEMA)).text == '{"city": "Bern"}'
    assert ["response_format" in asked.body for asked in server.asked] == [True, False, False]


async def test_a_cached_answer_is_not_asked_for_again(
    server: ModelServer, client: ClientMaker, cache: AnswerCache
) -> None:
    server.reply = lambda asked, number: saying(f"answer {number}")
    one, other = client(cache=cache), client(cache=cache)
    first = await one.chat(QUESTION, max_tokens=50)
    assert await other.chat(QUESTION, max_tokens=50) == first
    assert await other.chat(QUESTION, max_tokens=51) != first
    assert await client(cache=cache, model="n").chat(QUESTION, max_tokens=50) != first
    assert len(server.asked) == 3


async def test_a_refusal_is_not_cached(server: ModelServer, client: ClientMaker, cache: AnswerCache) -> None:
    server.reply = lambda asked, number: saying(None, refusal="no") if number == 1 else saying("Bern")
    one = client(cache=cache)
    assert (await one.chat(QUESTION, max_tokens=50)).refused
    assert (await one.chat(QUESTION, max_tokens=50)).text == "Bern"


async def test_texts_share_calls_and_vectors_come_in_their_order(server: ModelServer, client: ClientMaker) -> None:
    texts = [f"{'a' * (number % 7)}{number}" for number in range(BATCH_TEXTS + 6)]
    vectors = await client().embed([*texts, texts[3]])
    assert vectors == [[len(text), text.count("a"), 1] for text in [*texts, texts[3]]]
    assert [len(asked.body["input"]) for asked in server.asked] == [BATCH_TEXTS, 6], "and none is sent twice"


async def test_long_texts_share_no_call(server: ModelServer, client: ClientMaker) -> None:
    await client().embed(["a" * BATCH_TOKENS * 2, "b" * BATCH_TOKENS * 2, "c"])
    assert [len(asked.body["input"]) for asked in server.asked] == [1, 2]


async def test_cached_vectors_are_not_asked_for(server: ModelServer, client: ClientMaker, cache: AnswerCache) -> None:
    await client(cache=cache).embed(["a", "b"])
    assert await client(cache=cache).embed(["b", "c"]) == [[1, 0, 1], [1, 0, 1]]
    assert [asked.body["input"] for asked in server.asked] == [["a", "b"], ["c"]]


async def test_a_batch_that_the_server_finds_too_large_is_sent_in_halves(
    server: ModelServer, client: ClientMaker
) -> None:
    def at_most_two(asked: Asked, number: int) -> Reply:
        texts = asked.body["input"]
        return Reply(413) if len(texts) > 2 else vectors_of(texts)

    server.embedded = at_most_two
    assert [vector[0] for vector in await client().embed(["1", "22", "333", "4444", "55555"])] == [1, 2, 3, 4, 5]


async def test_a_text_that_the_server_rejects_is_an_error(server: ModelServer, client: ClientMaker) -> None:
    server.embedded = lambda asked, number: Reply(400) if "bad" in asked.body["input"] else vectors_of(["x"])
    with pytest.raises(ModelRejected):
        await client().embed(["good", "bad"])


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (Reply(429, {"Retry-After": "7"}), rm.RateLimited),
        (Reply(503, {"Retry-After": "7"}), rm.RateLimited),
        (Reply(500), rm.errors.ProviderDown),
        (Reply(401), rm.errors.ProviderRefused),
        (Reply(404), rm.errors.ProviderRefused),
        (Reply(308, {"Location": "/v2/embeddings"}), rm.errors.ProviderRefused),
        (Reply(body=b"{}"), ModelAnswerUnreadable),
        (Reply(body=b'{"data": [{"embedding": [1]}, {"embedding": [2]}]}'), ModelAnswerUnreadable),
        (Reply(body=b"{" * 5000, cut_at=2000), rm.errors.ProviderDown),
        (Reply(hangs=True), ModelTimedOut),
        (Reply(drips=True), ModelTimedOut),
    ],
)
async def test_embeddings_of_a_server_that_misbehaves(
    server: ModelServer, client: ClientMaker, limit: rm.limits.Limit, reply: Reply, error: type[Exception]
) -> None:
    server.embedded = lambda asked, number: reply
    with pytest.raises(error):
        await client(timeout=0.3 if reply.hangs or reply.drips else 20.0).embed(["planted word"])
    parked = (await limit.state()).parked_until is not None
    assert parked == (error is rm.RateLimited)


async def test_an_embedder_of_an_endpoint(server: ModelServer, client: ClientMaker) -> None:
    embedder = EndpointEmbedder(client(), dimensions=3, max_tokens=10)
    vectors = await embedder.embed(["banana", "  ", "x" * 1000, "half \ud800"])
    assert vectors.shape == (4, 3)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 0, 1, 1])
    assert [len(text) for text in server.asked[0].body["input"]] == [6, 27, 6], "the empty one is not sent"
    with pytest.raises(rm.errors.ProviderRefused, match="set dimensions"):
        await EndpointEmbedder(client(), dimensions=4).embed(["banana"])
