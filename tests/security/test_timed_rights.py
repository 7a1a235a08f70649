"""A role with the rights that `rowmill grants` prints runs schedules and deletes old rows, and nothing else."""

import asyncio

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege

from rowmill.testing import QUICK
from tests.conformance.fleet import until
from tests.security import guild
from tests.security.timed import mill


@pytest.fixture(autouse=True)
def timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guild, "APP", "tests.security.timed:mill")
    monkeypatch.setattr(guild, "mill", mill)


def test_a_worker_runs_schedules_and_deletes_what_is_old(pg_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with guild.guild(pg_url, capsys) as found:
        url = found.granted("worker")
        found.sql("INSERT INTO parcels (state, finished_at) VALUES ('done', now() - interval '2 hours')")
        mill.move_to(url)
        heard: list[str] = []
        mill.observe(lambda event, fields: heard.append(event))

        async def work() -> None:
            async with mill.worker(settings=QUICK) as worker:
                running = asyncio.create_task(worker.run())
                await until(lambda: worker.report.done >= 2 and "pruned" in heard)
                worker.stop()
                await running

        asyncio.run(work())
        mill.events.observers.clear()
        assert {"maintenance_failed", "wakeup_unavailable", "stuck", "away"}.isdisjoint(heard)
        with psycopg.connect(url, autocommit=True) as connection:
            assert connection.execute("SELECT count(*) FROM parcels").fetchone() == (0,)
            with pytest.raises(InsufficientPrivilege):
                connection.execute("UPDATE rowmill.schedule SET paused_since = now()")


def test_an_operator_pauses_and_runs_schedules(pg_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with guild.guild(pg_url, capsys) as found:
        url = found.granted("operator", "--operator")
        assert found.run(url, "drain")[0] == 0
        for command in ("run", "pause", "resume"):
            code, _, err = found.run(url, "schedule", command, "beat")
            assert code == 0, err
