"""K5, K7, K10: the nightly clean-up, and the schedules."""

import asyncio
from pathlib import Path

import pytest

from rowmill.testing import QUICK, Bench
from rowmill_systems.knowledge.cleanup import CleanupCounts, cleanup
from rowmill_systems.knowledge.knowledge import Knowledge
from rowmill_systems.knowledge.schedules import CLEANUP, RECONCILE
from rowmill_systems.parts.objects.folder import FolderStorage
from systems.tests.knowledge.consistency.damage import Library
from systems.tests.knowledge.harness import HashEmbedder, events, knowledge_on, settings_for


async def test_old_events_are_deleted_and_young_ones_stay(library: Library) -> None:
    """Processed ones by when they were processed, dead ones by when they were created."""
    await library.sql("DELETE FROM outbox")
    for name, state, created, processed in (
        ("processed 8 days ago", "processed", 9, 8),
        ("processed 6 days ago", "processed", 40, 6),
        ("dead since 31 days", "dead", 31, None),
        ("dead since 29 days", "dead", 29, None),
        ("pending since 50 days", "pending", 50, None),
    ):
        await library.add_event(name, state, created_days=created, processed_days=processed)

    counts = await cleanup(library.knowledge)
    assert (counts.processed_events, counts.dead_events) == (1, 1)
    assert [each.event_type for each in await events(library.knowledge)] == [
        "processed 6 days ago", "dead since 29 days", "pending since 50 days",
    ]  # fmt: skip
    assert await cleanup(library.knowledge) == CleanupCounts(0, 0, 0, 0)


async def test_more_than_a_batch_is_deleted_by_two_at_once(library: Library) -> None:
    for _ in range(6):
        await library.add_event("old", "processed", created_days=9, processed_days=8, copies=200)
    counts = await asyncio.gather(cleanup(library.knowledge), cleanup(library.knowledge))
    assert sum(each.processed_events for each in counts) == 1200


async def test_a_storage_that_is_away_keeps_no_events(sqlite_url: str, tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path / "files")
    async with knowledge_on(sqlite_url, tmp_path, storage=storage) as knowledge:
        (tmp_path / "files").mkdir(exist_ok=True)
        (tmp_path / "files" / ".incoming").mkdir(exist_ok=True)
        (tmp_path / "files" / ".incoming").rmdir()
        (tmp_path / "files" / ".incoming").write_text("no folder")
        assert (await cleanup(knowledge)).unfinished_files is None
    await storage.close()


def test_both_schedules_are_declared_unless_another_scheduler_has_them(tmp_path: Path) -> None:
    def schedules(**settings: object) -> dict[str, str]:
        made = Knowledge(settings_for("sqlite:///none.db", tmp_path, **settings), embedder=HashEmbedder())
        return {name: str(each.timing) for name, each in made.mill.schedules.items() if name in (RECONCILE, CLEANUP)}

    declared = schedules(reconcile_cron="5 * * * *")
    assert set(declared) == {"reconcile_data_consistency", "cleanup_processed_outbox_events"}
    assert "5 * * * *" in declared[RECONCILE]
    assert "0 3 * * *" in declared[CLEANUP]
    assert schedules(schedules=False) == {}


@pytest.mark.parametrize("name", [RECONCILE, CLEANUP])
async def test_a_tick_does_its_work(library: Library, tmp_path: Path, name: str) -> None:
    knowledge = Knowledge(library.knowledge.settings.model_copy(update={"schedules": True}), embedder=HashEmbedder())
    knowledge.mill.settings = QUICK
    await library.add_event("old", "processed", created_days=9, processed_days=8)
    async with knowledge.opened():
        await Bench(knowledge.mill).tick(name)
        runs = await knowledge.consistency.reconciliation.history()
    assert len(runs) == (name == RECONCILE)
    assert ("old" in [each.event_type for each in await events(library.knowledge)]) == (name == RECONCILE)
