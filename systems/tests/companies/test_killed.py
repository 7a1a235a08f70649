"""A run that is killed at any point loses nothing, and nothing is written twice."""

import asyncio
import os
import signal

import pytest
import sqlalchemy as sa

from rowmill.maintenance import upkeep
from systems.tests.companies.dying import ANSWERS, POINTS
from systems.tests.companies.harness import SALT, companies_on
from tests.support.postgres import REPOSITORY
from tests.support.python import run_python

NAMES = ("Acme", "Bolt", "Meyer", "Nobody")


@pytest.mark.parametrize("point", POINTS)
async def test_a_run_killed_at_any_point(database_url: str, point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """C8: what it had taken is `processing` for all to see, and returns to the next run after 15 minutes."""
    monkeypatch.setattr(upkeep, "GRACE", 0.0)  # the first look at the expired lease is enough: nobody renews it
    async with companies_on(database_url, ANSWERS) as harness:
        target = await harness.target()
        await harness.enqueue(*NAMES)
        rows = [{"id": n, "company_id": harness.temp_id(name)} for n, name in enumerate(NAMES)]
        await harness.mill.run(lambda connection: connection.execute(sa.insert(target), rows).close())
        given = os.environ | {"WDH_DATABASE_URL": database_url, "WDH_TEMP_ID_SALT": SALT}
        killed = await asyncio.to_thread(
            run_python, "-m", "systems.tests.companies.dying", "run", point, env=given, cwd=REPOSITORY
        )
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        tables = harness.companies.tables
        committed = point == "committed"
        assert {row.status for row in (await harness.rows()).values()} == {"done" if committed else "processing"}
        kept = 3 if point in ("looked up", "about to commit") else 0
        if not committed:
            assert len(await harness.read(sa.select(tables.mappings))) == kept, "answers that were paid for"
            assert await harness.read(sa.select(tables.reviews)) == []
            assert (await harness.run()).processed == 0, "it may still be at work"
            await harness.bench.advance(15 * 60 + 1)
        run = await harness.run()
        assert (run.rescued, run.done, run.no_match, run.unsure) == ((0, 0, 0, 0) if committed else (4, 2, 1, 1))
        assert run.known == kept
        found = await harness.rows()
        assert {(row.status, row.attempts) for row in found.values()} == {("done", 1 if committed else 2)}
        written = [row.company_id for row in await harness.read(sa.select(target).order_by(target.c.id))]
        assert written == ["C-1", "C-2", harness.temp_id("Meyer"), harness.temp_id("Nobody")]
        assert len(await harness.read(sa.select(tables.reviews))) == 1
        assert len(await harness.read(sa.select(tables.mappings))) == 3
