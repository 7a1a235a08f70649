"""K2, K5, K7, K10: knowledge in Celery, whose beat has the schedules in place of Rowmill."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from celery import Celery
from celery.schedules import crontab

import rowmill as rm
from rowmill.integrations.celery.loop_thread import close_loop_thread
from rowmill_systems.knowledge.bases import create_kb
from rowmill_systems.knowledge.celery_app import make_app
from rowmill_systems.knowledge.documents import request_deletion
from rowmill_systems.knowledge.knowledge import Knowledge
from rowmill_systems.knowledge.models import OutboxEvent
from rowmill_systems.knowledge.names import collection_of
from systems.tests.knowledge.harness import (
    HashEmbedder,
    PlainReaders,
    assert_consistent,
    assert_gone,
    document,
    knowledge_on,
    put,
    scalars,
    settings_for,
)  # fmt: skip
from tests.support.celery_processes import SECONDS, celery_processes, kill

TASKS = {"process_outbox_events", "reconcile_data_consistency", "cleanup_processed_outbox_events"}


@pytest.fixture
def celery(database_url: str, tmp_path: Path) -> Iterator[Celery]:
    """The application, on a system that reads plain text."""
    settings = settings_for(database_url, tmp_path, schedules=False, grace_seconds=0)
    system = Knowledge(settings, embedder=HashEmbedder())
    system.readers = PlainReaders()
    with make_app(settings, lambda: system) as app:
        yield app
    close_loop_thread()


def run(celery: Celery, name: str) -> dict[str, Any]:
    """Call a task as a worker does. Return its counts that are not 0, without the seconds."""
    counts = celery.tasks[name]()
    return {name: number for name, number in counts.items() if number and name != "seconds"}


def test_the_names_and_times_are_those_that_operators_know(tmp_path: Path) -> None:
    settings = settings_for("sqlite:///unused.db", tmp_path)
    celery = make_app(settings, lambda: Knowledge(settings))
    schedule = celery.conf.beat_schedule
    assert {entry["task"] for entry in schedule.values()} == TASKS <= set(celery.tasks)
    assert schedule["process_outbox_events"]["schedule"] == 10.0
    assert schedule["reconcile_data_consistency"]["schedule"] == crontab(minute=0)
    assert schedule["cleanup_processed_outbox_events"]["schedule"] == crontab(minute=0, hour=3)
    assert str(celery.timezone) == "UTC"


async def test_documents_are_processed_and_deleted_by_ticks(celery: Celery, knowledge: Knowledge) -> None:
    kb_id = await create_kb(knowledge, "sea")
    kept, deleted = await put(knowledge, kb_id), await put(knowledge, kb_id, "# Other\n\nAnother text.\n")

    counts = await asyncio.to_thread(run, celery, "process_outbox_events")
    await assert_consistent(knowledge, kb_id, deleted)
    await request_deletion(knowledge, deleted)
    await asyncio.to_thread(run, celery, "process_outbox_events")

    await assert_consistent(knowledge, kb_id, kept)
    await assert_gone(knowledge, kb_id, deleted)
    # Rowmill's own schedules may have had a tick beside the two events.
    assert counts["done"] == counts["claimed"] >= 2


async def test_a_comparison_finds_what_is_lost_and_the_next_tick_mends_it(celery: Celery, knowledge: Knowledge) -> None:
    kb_id = await create_kb(knowledge, "sea")
    document_id = await put(knowledge, kb_id)
    await put(knowledge, kb_id, "# Other\n\nAnother text.\n")
    await asyncio.to_thread(run, celery, "process_outbox_events")
    await knowledge.vectors.delete(collection_of(kb_id), document_id)

    found = await asyncio.to_thread(run, celery, "reconcile_data_consistency")
    assert (found["findings"], found["corrected"]) == (1, 1)
    await asyncio.to_thread(run, celery, "process_outbox_events")

    assert "findings" not in await asyncio.to_thread(run, celery, "reconcile_data_consistency")
    await assert_consistent(knowledge, kb_id, document_id)


async def test_old_events_are_deleted(celery: Celery, knowledge: Knowledge) -> None:
    await put(knowledge, await create_kb(knowledge, "sea"))
    await asyncio.to_thread(run, celery, "process_outbox_events")
    long_ago = datetime.now(UTC) - timedelta(days=8)
    await knowledge.mill.run(lambda c: c.execute(sa.update(OutboxEvent).values(processed_at=long_ago)).close())

    assert await asyncio.to_thread(run, celery, "cleanup_processed_outbox_events") == {"processed_events": 1}
    assert await scalars(knowledge, "SELECT count(*) FROM outbox") == [0]


async def test_a_worker_whose_settings_describe_no_store_takes_no_event(knowledge: Knowledge, tmp_path: Path) -> None:
    await put(knowledge, await create_kb(knowledge, "sea"))
    wrong = settings_for(knowledge.settings.database_url, tmp_path, vectors="gopher://x", schedules=False)
    system = Knowledge(wrong, embedder=HashEmbedder())
    try:
        with make_app(wrong, lambda: system) as celery, pytest.raises(rm.errors.DeclarationError, match="none of the"):
            await asyncio.to_thread(run, celery, "process_outbox_events")
    finally:
        close_loop_thread()
    assert await scalars(knowledge, "SELECT count(*) FROM outbox WHERE state = 'pending' AND attempts = 0") == [1]


def test_rowmill_s_own_schedules_are_off_where_beat_has_them(tmp_path: Path) -> None:
    def declared(*, schedules: bool) -> set[str]:
        settings = settings_for("sqlite:///unused.db", tmp_path, schedules=schedules)
        return TASKS.intersection(Knowledge(settings, embedder=HashEmbedder()).mill.schedules)

    assert declared(schedules=False) == set()
    assert declared(schedules=True) == TASKS - {"process_outbox_events"}


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
async def test_a_worker_that_is_killed_loses_no_document(database_url: str, tmp_path: Path) -> None:
    """With the readers and the model of the settings, as `celery worker --beat` runs them."""
    environment = {
        "KNOWLEDGE_DATABASE_URL": database_url, "KNOWLEDGE_STORAGE": str(tmp_path / "files"),
        "KNOWLEDGE_VECTORS": str(tmp_path / "vectors.db"), "KNOWLEDGE_OCR": "off", "KNOWLEDGE_LEASE_SECONDS": "1",
        "KNOWLEDGE_DISPATCH_SECONDS": "1", "CELERY_BROKER_URL": f"sqla+sqlite:///{tmp_path}/broker.db",
    }  # fmt: skip
    app = "rowmill_systems.knowledge.celery_app"
    async with knowledge_on(database_url, tmp_path) as knowledge:
        kb_id = await create_kb(knowledge, "sea")
        documents = [await put(knowledge, kb_id, f"# Whales\n\nWhale {n} is a mammal.\n") for n in range(3)]

        async def statuses() -> list[str]:
            return [(await document(knowledge, each)).status for each in documents]

        async def seen(wanted: Callable[[list[str]], bool]) -> None:
            async with asyncio.timeout(SECONDS):
                while not wanted(await statuses()):
                    await asyncio.sleep(0.02)

        with celery_processes(app, tmp_path, **environment) as processes:
            first = processes.worker("prefork", "--beat")
            await seen(lambda found: "processing" in found)
            kill(first)
            processes.worker("prefork", "--beat")
            await seen(lambda found: set(found) == {"ready"})
        assert await scalars(knowledge, "SELECT count(*) FROM outbox WHERE processed_at IS NULL") == [0]
