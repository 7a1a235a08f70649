"""Workers that die, freeze and come back: no row is lost, no effect is applied twice, every attempt is counted."""

import signal
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import Connection

from tests.faults.processes import yard_on
from tests.support.waiting import until


def test_rows_of_a_killed_worker_come_back_by_their_lease_with_the_attempt_counted(
    database_url: str, tmp_path: Path
) -> None:
    with yard_on(database_url, tmp_path) as yard:
        yard.put(*["hold effect"] * 5)
        victim = yard.work()
        yard.until_begun(1, 2, 3, 4, 5)
        victim.send(signal.SIGKILL)
        assert victim.wait() == -signal.SIGKILL
        yard.go()
        heir = yard.work()
        until(yard.finished)
        heir.send(signal.SIGTERM)
        assert heir.wait() == 0, heir.said()

        assert yard.states() == {"done": 5}
        assert {row.attempts for row in yard.rows().values()} == {2}
        assert yard.effects() == [1, 2, 3, 4, 5]
        assert [yard.failures(key) for key in range(1, 6)] == [[(1, "lease_expired")]] * 5
        assert {call.attempt for call in yard.journal.calls("end")} == {2}


def test_a_frozen_worker_that_comes_back_is_refused(database_url: str, tmp_path: Path) -> None:
    with yard_on(database_url, tmp_path) as yard:
        yard.put(*["hold effect"] * 4, *["hold"] * 4)
        zombie = yard.work("--log-format", "json", "--log-level", "debug")
        yard.until_begun(*range(1, 9))
        zombie.freeze(yard.writable)
        heir = yard.work()
        yard.until_begun(*range(1, 9), attempt=2)  # the leases have run out, and the heir holds the rows
        yard.go()
        until(yard.finished)
        zombie.thaw()
        until(lambda: zombie.said().count('"event": "lost"') == 8)
        for worker in (zombie, heir):
            worker.send(signal.SIGTERM)
            assert worker.wait() == 0, worker.said()

        assert yard.states() == {"done": 8}
        assert yard.effects() == [1, 2, 3, 4], "once each, whoever came first"
        assert {row.attempts for row in yard.rows().values()} == {2}
        assert "lost=8" in zombie.said()
        assert "lost=0" in heir.said()


def test_a_frozen_worker_that_comes_back_before_anyone_else_loses_nothing(database_url: str, tmp_path: Path) -> None:
    """Its leases have run out, but nobody took the rows: the token still holds."""
    with yard_on(database_url, tmp_path, lease=2.0) as yard:
        yard.put("hold effect")
        worker = yard.work(ROWMILL_RESCUE_EVERY="3600", ROWMILL_HEARTBEAT="60")
        yard.until_begun(1)
        worker.freeze(yard.writable)
        until(lambda: yard.do(expired) == 1)
        yard.go()
        worker.thaw()
        until(yard.finished)
        worker.send(signal.SIGTERM)

        assert worker.wait() == 0, worker.said()
        assert yard.states() == {"done": 1}
        assert yard.effects() == [1]
        assert "lost=0" in worker.said()


def expired(connection: Connection) -> int:
    now = "now()" if connection.dialect.name == "postgresql" else "strftime('%Y-%m-%d %H:%M:%f000', 'now')"
    return int(connection.scalar(sa.text(f"SELECT count(*) FROM job WHERE leased_until < {now}")) or 0)
