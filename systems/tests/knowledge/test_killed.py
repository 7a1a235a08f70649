"""A worker that is killed in the middle of an event leaves nothing that the next one does not finish or remove.

These are real processes, on PostgreSQL. `test_frozen` stops at every step, on both databases.
"""

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rowmill.maintenance import upkeep
from rowmill.testing import Bench
from rowmill_systems.knowledge.bases import create_kb, request_kb_deletion
from rowmill_systems.knowledge.documents import request_deletion
from rowmill_systems.knowledge.events.failing import SCHEDULE
from rowmill_systems.knowledge.knowledge import Knowledge
from systems.tests.knowledge.harness import (
    advance,
    assert_consistent,
    assert_gone,
    document,
    drain,
    events,
    kb_row,
    knowledge_on,
    objects_of,
    put,
    scalars,
    sql,
)
from tests.support.postgres import REPOSITORY
from tests.support.python import run_python


@pytest.fixture
async def knowledge(pg_url: str, tmp_path: Path) -> AsyncIterator[Knowledge]:
    async with knowledge_on(pg_url, tmp_path) as opened:
        yield opened


@pytest.fixture(autouse=True)
def no_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "GRACE", 0.0)


async def killed(knowledge: Knowledge, folder: Path, point: str, *arguments: str) -> None:
    """Run a process that is killed at that point, and let its leases run out."""
    given = os.environ | {
        "KNOWLEDGE_DATABASE_URL": knowledge.settings.database_url,
        "KNOWLEDGE_STORAGE": str(folder / "files"),
        "KNOWLEDGE_VECTORS": str(folder / "vectors.db"),
    }
    process: Any = await asyncio.to_thread(
        run_python, "-m", "systems.tests.knowledge.dying", point, *arguments, env=given, cwd=REPOSITORY
    )
    assert process.returncode == -signal.SIGKILL, process.stderr
    await advance(knowledge, knowledge.settings.lease_seconds)


@pytest.mark.parametrize("point", ["points put", "published"])
async def test_processing(knowledge: Knowledge, tmp_path: Path, point: str) -> None:
    kb_id = await create_kb(knowledge, "a")
    document_id = await put(knowledge, kb_id)
    await killed(knowledge, tmp_path, point)
    await drain(knowledge)
    await assert_consistent(knowledge, kb_id, document_id)
    [event] = await events(knowledge)
    assert (event.state, event.attempts) == ("processed", 1), "a crash is a failed attempt"
    assert (await document(knowledge, document_id)).generation == 1


async def test_deleting(knowledge: Knowledge, tmp_path: Path) -> None:
    kb_id = await create_kb(knowledge, "a")
    document_id = await put(knowledge, kb_id)
    await drain(knowledge)
    await request_deletion(knowledge, document_id)
    await killed(knowledge, tmp_path, "points and bytes deleted")
    assert (await document(knowledge, document_id)).status == "deleting"
    await drain(knowledge)
    await assert_gone(knowledge, kb_id, document_id)


async def test_deleting_a_knowledge_base(knowledge: Knowledge, tmp_path: Path) -> None:
    kb_id = await create_kb(knowledge, "a")
    document_id = await put(knowledge, kb_id)
    await drain(knowledge)
    await request_kb_deletion(knowledge, kb_id)
    await killed(knowledge, tmp_path, "collection dropped")
    assert (await kb_row(knowledge, kb_id)).status == "deleting"
    await drain(knowledge)
    assert (await kb_row(knowledge, kb_id)).status == "archived"
    await assert_gone(knowledge, kb_id, document_id)


async def test_an_upload(knowledge: Knowledge, tmp_path: Path) -> None:
    """Bytes that nobody accepted are removed when the upload comes due."""
    kb_id = await create_kb(knowledge, "a")
    await killed(knowledge, tmp_path, "bytes stored", str(kb_id))
    await drain(knowledge)
    assert len(await objects_of(knowledge, kb_id)) == 1, "it may still be under way"
    await advance(knowledge, knowledge.settings.upload_seconds)
    await drain(knowledge)
    assert await objects_of(knowledge, kb_id) == []
    assert await scalars(knowledge, "SELECT state FROM uploads") == ["removed"]
    assert await scalars(knowledge, "SELECT count(*) FROM documents") == [0]


async def test_a_document_that_kills_its_worker_every_time(
    knowledge: Knowledge, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """K3: its event is dead after five attempts, one record says so, and it is FAILED: it does not loop for ever."""
    kb_id = await create_kb(knowledge, "a")
    document_id = await put(knowledge, kb_id)
    await sql(knowledge, "UPDATE outbox SET attempts = 4")
    for _ in range(2):  # the last attempt is repeated, alone: another event may have killed the process
        await killed(knowledge, tmp_path, "reading")
    await drain(knowledge)
    [event] = await events(knowledge)
    assert (event.state, event.attempts) == ("dead", 5)
    assert len([record for record in caplog.records if record.levelno == logging.CRITICAL]) == 1
    await Bench(knowledge.mill).tick(SCHEDULE)
    row = await document(knowledge, document_id)
    assert (row.status, row.retry_count) == ("failed", 5)
    assert row.last_error == event.last_error
    await advance(knowledge, 100_000)
    await drain(knowledge)
    assert [each.state for each in await events(knowledge)] == ["dead"]
    assert (await document(knowledge, document_id)).status == "failed"
