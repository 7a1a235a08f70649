"""why: every reason, by its name."""

from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from rowmill.model.lease import token
from rowmill.store.clock import moment
from rowmill.store.own.history import note_refused
from rowmill.store.own.schema import own_tables
from tests.cli.conftest import Shell
from tests.cli.example import codes, entities, events, files, files_queue


def worker(shell: Shell, number: int, queues: str, seen: float = 0.0) -> None:
    """A worker in the fleet's list, last seen so many seconds ago."""

    def work(connection: sa.Connection) -> None:
        dialect = connection.dialect.name
        connection.execute(
            sa.insert(own_tables(dialect).worker).values(
                id=number,
                host="mill-7",
                pid=4711,
                queues=queues,
                started_at=moment(dialect, -900),
                seen_at=moment(dialect, -seen),
            )
        )

    shell.do(work)


def holds(shell: Shell, queue: str, key: object) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = shell.ok("why", queue, str(key), "--json").json["holds"]
    return found


def reasons(shell: Shell, queue: str, key: object) -> list[str]:
    return [hold["reason"] for hold in holds(shell, queue, key)]


def test_a_row_that_nothing_holds(shell: Shell) -> None:
    worker(shell, 7, "entities, files")
    shell.put(files, {"id": 1, "status": "queued"})

    assert reasons(shell, "files", 1) == ["ready"]
    assert "nothing holds it" in shell.ok("why", "files", "1").out


@pytest.mark.parametrize(("seen", "alive"), [(1, True), (300, False)])
def test_a_leased_row_names_its_worker(shell: Shell, seen: float, alive: bool) -> None:
    worker(shell, 7, "files", seen)
    until = shell.now(files, "leased_until", 600)
    shell.put(files, {"id": 1, "status": "processing", "lease": token(7, 3), "leased_until": until})

    [hold] = holds(shell, "files", 1)

    assert hold["reason"] == "leased"
    assert {name: hold["facts"][name] for name in ("worker", "host", "pid", "alive")} == {
        "worker": 7, "host": "mill-7", "pid": 4711, "alive": alive,
    }  # fmt: skip
    assert 0 < hold["facts"]["seconds_left"] <= 600


def test_a_lease_that_ran_out(shell: Shell) -> None:
    until = shell.now(files, "leased_until", -60)
    shell.put(files, {"id": 1, "status": "processing", "lease": token(9, 3), "leased_until": until})

    [hold] = holds(shell, "files", 1)

    assert (hold["reason"], hold["facts"]["worker"]) == ("lease_expired", 9)
    assert "rowmill rescue" in hold["text"]


def test_a_row_that_was_in_progress_when_its_table_was_adopted(shell: Shell) -> None:
    shell.put(files, {"id": 1, "status": "processing", "leased_until": shell.now(files, "leased_until", 600)})
    shell.put(files, {"id": 2, "status": "processing", "leased_until": shell.now(files, "leased_until", -60)})

    [hold] = shell.ok("why", "files", "1", "--json").json["holds"]

    assert hold["reason"] == "no_lease"
    assert 500 < hold["facts"]["seconds_left"] <= 600
    assert reasons(shell, "files", 2) == ["lease_expired"]


def test_a_running_row_without_a_lease(shell: Shell) -> None:
    shell.put(files, {"id": 1, "status": "processing"})

    assert reasons(shell, "files", 1) == ["no_lease"]


def test_backoff_and_pause_are_both_named(shell: Shell) -> None:
    worker(shell, 7, "codes")
    shell.put(codes, {"id": 1, "state": 4, "attempts": 2, "available_at": shell.now(codes, "available_at", 600)})
    shell.ok("pause", "codes")

    found = holds(shell, "codes", 1)

    assert [hold["reason"] for hold in found] == ["paused", "backoff", "no_handler"]
    assert 590 < found[1]["facts"]["seconds_left"] <= 600


def test_a_paused_stage(shell: Shell) -> None:
    worker(shell, 7, "entities")
    shell.put(entities, {"id": UUID(int=1), "state": "PENDING"}, {"id": UUID(int=2), "state": "LINKED"})
    shell.ok("pause", "entities", "--stage", "enrich")

    assert reasons(shell, "entities", UUID(int=1)) == ["ready"]
    assert reasons(shell, "entities", UUID(int=2)) == ["paused"]


def test_an_earlier_row_of_the_same_key(shell: Shell) -> None:
    worker(shell, 7, "events")
    shell.put(
        events,
        {"id": 1, "aggregate": "a", "state": "done"},
        {"id": 2, "aggregate": "a", "state": "dead"},
        {"id": 3, "aggregate": "b", "state": "ready"},
        {"id": 4, "aggregate": "a", "state": "ready"},
    )

    [hold] = holds(shell, "events", 4)

    assert (hold["reason"], hold["facts"]) == ("order", {"key": "2", "state": "dead"})
    assert reasons(shell, "events", 3) == ["ready"]


def test_no_worker_serves_the_queue(shell: Shell) -> None:
    worker(shell, 7, "other", seen=1)
    worker(shell, 8, "files", seen=300)
    shell.put(files, {"id": 1, "status": "queued"})

    assert reasons(shell, "files", 1) == ["no_worker"]


def test_a_dead_row_names_its_last_failure(shell: Shell) -> None:
    shell.put(files, {"id": 1, "status": "queued", "slot": "broken"}, {"id": 2, "status": "failed"})
    shell.drain("files")

    [hold] = holds(shell, "files", 1)

    assert (hold["reason"], hold["facts"]["code"], hold["facts"]["attempt"]) == ("dead", "broken", 1)
    assert "rowmill requeue files --key 1" in hold["text"]
    assert reasons(shell, "files", 2) == ["dead"]


@pytest.mark.parametrize(
    ("state", "reason"),
    [("COMPLETE", "done"), ("CANCELLED", "cancelled"), ("GONE_FISHING", "unknown_word"), (None, "no_state")],
)
def test_rows_that_are_never_claimed(shell: Shell, state: str | None, reason: str) -> None:
    shell.put(entities, {"id": UUID(int=1), "state": state})

    assert reasons(shell, "entities", UUID(int=1)) == [reason]


def test_a_row_that_its_table_refused(shell: Shell) -> None:
    worker(shell, 7, "files")
    shell.put(files, {"id": 1, "status": "queued"}, {"id": 2, "status": "queued"})
    shell.do(lambda connection: note_refused(connection, files_queue, files_queue.step(), 7, [("1", "RaiseError")]))

    [hold] = holds(shell, "files", 1)

    assert (hold["reason"], hold["facts"]["reason"]) == ("refused", "RaiseError")
    assert "refused to let it be claimed" in hold["text"]
    assert reasons(shell, "files", 2) == ["ready"]


def test_a_finished_row_is_kept_for_as_long_as_the_queue_says(shell: Shell) -> None:
    shell.put(entities, *({"id": UUID(int=n), "state": "PENDING"} for n in range(2)))
    shell.drain("entities")
    done, failed = (holds(shell, "entities", UUID(int=n)) for n in range(2))
    assert [hold["reason"] for hold in done] == ["done", "kept"]
    assert [hold["reason"] for hold in failed] == ["dead", "kept"]
    assert failed[1]["facts"]["until"] > done[1]["facts"]["until"]
    assert "it is kept until" in shell.ok("why", "entities", str(UUID(int=0))).out
    assert "done rows are kept for 7 d; dead rows are kept for 30 d" in shell.ok("stats", "entities").out
