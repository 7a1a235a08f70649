"""The models of the settings: one in a wheel by default, or an endpoint within limits of the whole fleet."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import rowmill as rm
from rowmill.testing import QUICK
from rowmill_systems.knowledge.bases import create_kb
from rowmill_systems.knowledge.knowledge import Knowledge
from systems.tests.knowledge.harness import (
    PlainReaders,
    advance,
    assert_consistent,
    document,
    drain,
    events,
    put,
    settings_for,
)
from systems.tests.model_server import Reply, model_server, vectors_of


@asynccontextmanager
async def with_settings(url: str, folder: Path, **settings: Any) -> AsyncIterator[Knowledge]:
    """Knowledge with the model of its settings."""
    made = Knowledge(settings_for(url, folder, **settings))
    made.mill.settings, made.readers = QUICK, PlainReaders()
    async with made.opened():
        await made.prepare_stores()
        yield made


async def test_the_default_model_is_opened_again_after_it_was_closed(sqlite_url: str, tmp_path: Path) -> None:
    async with with_settings(sqlite_url, tmp_path) as knowledge:
        kb_id = await create_kb(knowledge, "a")
        first = await put(knowledge, kb_id)
        await drain(knowledge)
    async with knowledge.opened():
        second = await put(knowledge, kb_id)
        await drain(knowledge)
        for document_id in (first, second):
            await assert_consistent(knowledge, kb_id, document_id)
            assert (await document(knowledge, document_id)).dimensions == 256


async def test_an_endpoint_is_called_within_a_limit(sqlite_url: str, tmp_path: Path) -> None:
    """A limit without room, and a server that asks to wait, cost no attempt. A text that it refuses is no outage."""
    async with model_server() as server:
        endpoint = {
            "embedder": "endpoint", "endpoint_url": server.url, "embedding_model": "small", "embedding_dimensions": 3,
            "endpoint_key": "a-secret-key", "endpoint_tokens_per_day": 1_000_000,
        }  # fmt: skip
        async with with_settings(sqlite_url, tmp_path, **endpoint) as knowledge:
            kb_id = await create_kb(knowledge, "a")
            document_id = await put(knowledge, kb_id)
            server.embedded = lambda asked, number: Reply(429, headers={"Retry-After": "1"})
            await drain(knowledge)
            assert [event.attempts for event in await events(knowledge)] == [0]
            server.embedded = lambda asked, number: vectors_of(asked.body["input"])
            await advance(knowledge, 100)
            await drain(knowledge)
            await assert_consistent(knowledge, kb_id, document_id)
            row = await document(knowledge, document_id)
            assert (row.embedding_model, row.dimensions) == ("small", 3)
            assert server.asked[-1].headers["authorization"] == "Bearer a-secret-key"
            server.embedded = lambda asked, number: Reply(400, body=b'{"error": "not that"}')
            refused = await put(knowledge, kb_id)
            await drain(knowledge)
            row = await document(knowledge, refused)
            assert (row.status, row.error_code) == ("failed", "model_rejected")
            assert "a-secret-key" not in str(knowledge.settings)


def test_an_endpoint_without_an_address_says_what_is_missing(sqlite_url: str, tmp_path: Path) -> None:
    with pytest.raises(rm.errors.DeclarationError, match="KNOWLEDGE_ENDPOINT_URL"):
        _ = Knowledge(settings_for(sqlite_url, tmp_path, embedder="endpoint")).embedder
