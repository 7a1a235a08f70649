"""A worker that is killed in the middle of a batch loses no article, and writes no half of one."""

import asyncio
import os
import signal

import pytest

from rowmill.maintenance import upkeep
from systems.tests.articles.dying import POINTS
from systems.tests.articles.harness import articles_on
from tests.support.postgres import REPOSITORY
from tests.support.python import run_python


@pytest.mark.parametrize("point", POINTS)
async def test_a_worker_killed_at_any_point(database_url: str, point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A4, A5: topics and completion are written together; the crash counts as a try."""
    monkeypatch.setattr(upkeep, "GRACE", 0.0)  # the first look at the expired lease is enough: nobody renews it
    async with articles_on(database_url, {"a": {"new": 0.9}}) as harness:
        await harness.save("a", "b", "c")
        given = os.environ | {"ARTICLES_DATABASE_URL": database_url}
        killed = await asyncio.to_thread(
            run_python, "-m", "systems.tests.articles.dying", point, env=given, cwd=REPOSITORY
        )
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        committed = point == "committed"
        rows, contents = await harness.requests(), await harness.contents()
        assert {row.status for row in rows.values()} == {"completed" if committed else "processing"}
        assert contents["a"].topics == (["old"] if committed else None)
        if not committed:
            assert (await harness.bench.drain()).claimed == 0, "it may still be at work"
            await harness.bench.advance(121)
        await harness.bench.drain()
        rows, contents = await harness.requests(), await harness.contents()
        tries = 0 if committed else 1
        assert {(row.status, row.retry_count) for row in rows.values()} == {("completed", tries)}
        assert contents["a"].topics == ["old" if committed else "new"]


async def test_an_article_whose_worker_dies_each_time_is_failed(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A5: three tries in all, also where each of them kills its worker."""
    monkeypatch.setattr(upkeep, "GRACE", 0.0)
    async with articles_on(database_url) as harness:
        await harness.save("a")
        # As a third claim leaves it, by a worker that ran it alone and is gone.
        await harness.sql(
            "UPDATE classification_queue SET status = 'processing', retry_count = 3, lease = 5, "
            "leased_until = created_at, error_message = 'ran alone'"
        )
        await harness.bench.drain()
        row = (await harness.requests())["a"]
        assert (row.status, row.retry_count, row.error_message) == ("failed", 3, "lease_expired_max_attempts")
