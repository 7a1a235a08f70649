"""Rows that kill their process end dead after exactly their attempts, and take no innocent with them."""

import signal
from collections import Counter
from pathlib import Path

from tests.faults.processes import yard_on
from tests.support.waiting import until


def test_poison_ends_dead_and_its_neighbours_do_not(database_url: str, tmp_path: Path) -> None:
    titles = ["poison" if key in (5, 6, 30) else "effect" for key in range(1, 61)]
    poison = {key for key, title in enumerate(titles, start=1) if title == "poison"}
    with yard_on(database_url, tmp_path) as yard:
        yard.put(*titles)
        supervisor = yard.work("--processes", "2")
        until(yard.finished, seconds=100)
        supervisor.send(signal.SIGTERM)
        assert supervisor.wait() == 0, supervisor.said()

        rows = yard.rows()
        assert {key for key, row in rows.items() if row.state == "dead"} == poison
        assert {rows[key].attempts for key in poison} == {3}
        assert {rows[key].error for key in poison} == {"lease_expired_max_attempts"}
        assert {tuple(sorted({attempt for attempt, _ in yard.failures(key)})) for key in poison} == {(1, 2, 3)}
        assert yard.effects() == sorted(set(rows) - poison)
        # Its last chance each got alone: whatever else had begun in that process had also ended.
        for last in (call for call in yard.journal.calls("begin") if call.key in poison and call.attempt == 3):
            beside = Counter(call.key for call in yard.journal.calls() if call.pid == last.pid)
            assert [key for key, lines in beside.items() if lines % 2] == [last.key]
