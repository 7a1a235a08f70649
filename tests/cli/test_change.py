"""requeue, cancel, prune: preview, batches, what they may not touch."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
import sqlalchemy as sa
import typer

from rowmill.model.lease import token
from rowmill.operator import change
from rowmill.operator.filters import Filter
from rowmill.store.port import Store
from tests.cli import example
from tests.cli.conftest import Shell
from tests.cli.example import ODD, codes, entities, events, files, odd


@pytest.fixture
def every_state(shell: Shell) -> Shell:
    until = shell.now(files, "leased_until", 600)
    shell.put(
        files,
        {"id": 1, "status": "queued"},
        {"id": 2, "status": "processing", "attempts": 1, "lease": token(1, 1), "leased_until": until},
        {"id": 3, "status": "completed", "attempts": 1, "finished_at": shell.now(files, "finished_at", -7200)},
        {
            "id": 4,
            "status": "failed",
            "attempts": 2,
            "error": "boom: x",
            "finished_at": shell.now(files, "finished_at"),
        },
        {"id": 5, "status": "queued", "attempts": 1, "available_at": shell.now(files, "available_at", 600)},
    )
    return shell


def changed(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> list[int]:
    return [new["id"] for old, new in zip(before, after, strict=True) if old != new]


def test_requeue_takes_dead_rows_by_default(every_state: Shell) -> None:
    before = every_state.rows(files)

    answer = every_state.ok("requeue", "files", "--yes", "--json").json

    after = every_state.rows(files)
    assert (answer["changed"], answer["refused"]) == (1, 0)
    assert changed(before, after) == [4]
    row = after[3]
    assert (row["status"], row["attempts"], row["error"], row["finished_at"]) == ("queued", 0, None, None)
    assert row["available_at"] is not None


def test_requeue_by_key_takes_what_is_not_running(every_state: Shell) -> None:
    keys = [option for n in range(1, 6) for option in ("--key", str(n))]
    before = every_state.rows(files)

    answer = every_state("requeue", "files", "--yes", "--json", *keys)

    assert changed(before, every_state.rows(files)) == [3, 4, 5]
    assert (answer.code, answer.json["changed"]) == (1, 3)
    assert answer.json["untouched"] == [
        {"key": "1", "state": "queued", "kind": "ready"}, {"key": "2", "state": "processing", "kind": "running"},
    ]  # fmt: skip
    assert answer.err.splitlines() == [
        "row 1 is ready (queued) already",
        "row 2 is running (processing): requeue takes rows that are finished or wait",
    ]


AN_HOUR = ["prune", "--older-than", "1h"]
NAMED = [
    (["requeue"], "ready", 0, "row 1 is ready (ready) already"),
    (["requeue"], "running", 1, "row 1 is running (running): requeue takes rows that are finished or wait"),
    (["requeue"], "odd", 1, "row 1 is unknown (odd): requeue takes rows that are finished or wait"),
    (["cancel"], "cancelled", 0, "row 1 is cancelled (cancelled) already"),
    (["cancel"], "running", 1, "row 1 is running (running): cancel takes rows that wait"),
    (["cancel"], "done", 1, "row 1 is done (done): cancel takes rows that wait"),
    (AN_HOUR, "ready", 1, "row 1 is ready (ready): prune takes rows that finished 1h ago or earlier"),
    (AN_HOUR, "done", 1, "row 1 is done (done): prune takes rows that finished 1h ago or earlier"),
]


@pytest.mark.parametrize("extra", ["--yes", "--dry-run"])
@pytest.mark.parametrize(("command", "state", "code", "says"), NAMED)
def test_a_row_that_was_named_and_can_not_be_taken(
    shell: Shell, command: list[str], state: str, code: int, says: str, extra: str
) -> None:
    """A script that names a row has to know whether it is as it was told to be."""
    name, *options = command
    shell.put(events, {"id": 1, "aggregate": "a", "state": state, "finished_at": shell.now(events, "finished_at")})

    answer = shell(name, "events", *options, "--key", "01", extra)

    assert (answer.code, answer.out, answer.err) == (code, f"no rows of events to {name}\n", f"{says}\n")
    assert shell.states(events) == [state]


def test_a_filter_beside_the_keys_leaves_rows_out_without_a_word(every_state: Shell) -> None:
    answer = every_state.ok("requeue", "files", "--key", "3", "--key", "4", "--state", "dead", "--yes")

    assert answer.err == ""
    assert [row["id"] for row in every_state.rows(files) if row["attempts"] == 0] == [1, 4]


def test_a_ready_row_is_not_already_at_another_stage(shell: Shell) -> None:
    key = str(UUID(int=1))
    shell.put(entities, {"id": UUID(int=1), "state": "PENDING"})

    assert shell("requeue", "entities", "--key", key, "--to-stage", "link", "--yes").code == 0
    assert shell("requeue", "entities", "--key", key, "--to-stage", "enrich", "--yes").code == 1


def test_many_rows_that_can_not_be_taken_are_counted(shell: Shell) -> None:
    shell.put(codes, *({"id": n, "state": 1} for n in range(1, 10)))

    answer = shell("requeue", "codes", *(option for n in range(1, 10) for option in ("--key", str(n))), "--yes")

    assert answer.code == 1
    assert len(answer.err.splitlines()) == 6
    assert "4 more rows" in answer.err


@pytest.mark.parametrize("command", [["requeue"], ["cancel"], ["prune", "--older-than", "0s"]], ids=lambda c: c[0])
@pytest.mark.parametrize("extra", [["--yes"], ["--dry-run"]], ids=lambda e: e[0])
def test_a_row_that_was_named_and_is_not_there_is_a_failure(shell: Shell, command: list[str], extra: list[str]) -> None:
    state = {"requeue": "dead", "cancel": "ready", "prune": "done"}[command[0]]
    shell.put(events, {"id": 1, "aggregate": "a", "state": state})
    before = shell.rows(events)

    name, *options = command
    answer = shell(name, "events", *options, "--key", "1", "--key", "98", "--key", "99", *extra)

    assert (answer.code, answer.out) == (1, "")
    assert answer.err == "rowmill: queue events has no rows with the keys 98, 99\n"
    assert shell.rows(events) == before


def test_prune_says_that_it_deletes(shell: Shell) -> None:
    shell.put(files, {"id": 1, "status": "completed", "finished_at": shell.now(files, "finished_at", -7200)})

    assert "would DELETE 1 row (1)" in shell.ok("prune", "files", "--older-than", "1h", "--dry-run").out
    assert "DELETE 1 row (1) of files" in shell("prune", "files", "--older-than", "1h").err
    assert "DELETE finished rows" in shell.ok("prune", "--help").out


def test_a_requeued_row_is_worked_on_again(shell: Shell) -> None:
    shell.put(files, {"id": 1, "status": "failed", "attempts": 2})

    shell.ok("requeue", "files", "--yes")
    shell.drain("files")

    assert shell.states(files, "status") == ["completed"]


def test_a_dead_row_resumes_at_the_stage_that_failed(shell: Shell) -> None:
    shell.put(entities, *({"id": UUID(int=n), "state": "PENDING"} for n in (1, 2, 3)))
    shell.put(entities, {"id": UUID(int=4), "state": "FAILED"}, {"id": UUID(int=5), "state": "ENRICH_FAILED"})
    shell.drain("entities")
    shell.put(entities, {"id": UUID(int=6), "state": "ENRICH_FAILED"})
    assert shell.states(entities) == ["FAILED", "FAILED", "COMPLETE", "FAILED", "COMPLETE", "ENRICH_FAILED"]

    shell.ok("requeue", "entities", "--state", "dead", "--state", "waiting", "--yes")

    assert shell.states(entities) == ["PENDING", "LINKED", "COMPLETE", "PENDING", "COMPLETE", "LINKED"]


def test_the_stage_to_begin_at_can_be_chosen(shell: Shell) -> None:
    shell.put(entities, {"id": UUID(int=1), "state": "COMPLETE"})

    shell.ok("requeue", "entities", "--state", "done", "--to-stage", "enrich", "--yes")

    assert shell.states(entities) == ["LINKED"]


def test_cancel_takes_rows_that_wait(shell: Shell) -> None:
    words = ["PENDING", "LINKING", "LINK_FAILED", "LINKED", "COMPLETE", "FAILED"]
    shell.put(entities, *({"id": UUID(int=n), "state": word} for n, word in enumerate(words)))

    answer = shell.ok("cancel", "entities", "--all", "--yes", "--json").json

    assert answer["changed"] == 3
    assert shell.states(entities) == ["CANCELLED", "LINKING", "CANCELLED", "CANCELLED", "COMPLETE", "FAILED"]
    assert shell.rows(entities)[0]["finished_at"] is not None


def test_cancel_without_a_word_for_it_is_refused_with_the_fix(every_state: Shell) -> None:
    answer = every_state("cancel", "files", "--all", "--yes")

    assert answer.code == 2
    assert "States(cancelled=" in answer.err


def test_cancel_of_everything_has_to_be_meant(shell: Shell) -> None:
    answer = shell("cancel", "entities", "--yes")

    assert answer.code == 2
    assert "--all" in answer.err


def test_prune_deletes_old_finished_rows(shell: Shell) -> None:
    old, new = shell.now(files, "finished_at", -7200), shell.now(files, "finished_at", -60)
    shell.put(
        files,
        {"id": 1, "status": "completed", "finished_at": old},
        {"id": 2, "status": "completed", "finished_at": new},
        {"id": 3, "status": "failed", "finished_at": old},
        {"id": 4, "status": "queued", "available_at": old},
        {"id": 5, "status": "processing", "finished_at": old},
        {"id": 6, "status": "completed", "created_at": old},
        {"id": 7, "status": "completed", "created_at": new},
    )

    assert shell.ok("prune", "files", "--older-than", "1h", "--yes", "--json").json["changed"] == 2
    assert [row["id"] for row in shell.rows(files)] == [2, 3, 4, 5, 7]

    assert shell.ok("prune", "files", "--older-than", "1h", "--state", "dead", "--yes", "--json").json["changed"] == 1
    assert [row["id"] for row in shell.rows(files)] == [2, 4, 5, 7]


def test_prune_understands_epochs(shell: Shell) -> None:
    shell.put(codes, {"id": 1, "state": 2, "finished_at": shell.now(codes, "finished_at", -7200)})
    shell.put(codes, {"id": 2, "state": 2, "finished_at": shell.now(codes, "finished_at", -60)})

    assert shell.ok("prune", "codes", "--older-than", "1h", "--yes", "--json").json["changed"] == 1
    assert [row["id"] for row in shell.rows(codes)] == [2]


def test_names_that_need_quotes_and_keys_of_two_parts(shell: Shell) -> None:
    old = shell.now(odd, "finished_at", -7200)
    shell.put(odd, *({"Part 1": "a", "order": n, "State?": "dead", "finished_at": old} for n in range(5)))

    assert shell.ok("requeue", ODD, "--key", "a|0", "--key", "a|1", "--yes", "--json").json["changed"] == 2
    assert shell.ok("cancel", ODD, "--where", '"order" = 0', "--yes", "--json").json["changed"] == 1
    assert shell.ok("prune", ODD, "--older-than", "1h", "--state", "dead", "--yes", "--json").json["changed"] == 3
    assert shell.states(odd, "State?") == ["can'celled", "ready"]


@pytest.mark.parametrize("table", ["codes", "odd"])
def test_work_goes_on_batch_by_batch_and_tells_how_far_it_is(shell: Shell, table: str) -> None:
    queue: Any = {"codes": example.codes_queue, "odd": example.odd_queue}[table]
    if table == "codes":
        shell.put(codes, *({"id": n, "state": 3} for n in range(1, 26)))
    else:
        shell.put(odd, *({"Part 1": "ab"[n % 2], "order": n, "State?": "dead"} for n in range(25)))
    seen: list[int] = []

    async def work() -> change.ChangeResult:
        async with example.mill.opened() as store:
            return await change.requeue(store, queue, Filter(), batch=10, progress=seen.append)

    assert asyncio.run(work()).rows == 25
    assert seen == [10, 20, 25]


def test_prune_batches_are_transactions_of_their_own(shell: Shell) -> None:
    old = shell.now(codes, "finished_at", -7200)
    shell.put(codes, *({"id": n, "state": 2, "finished_at": old} for n in range(1, 26)))

    class Enough(Exception):
        pass

    def stop(rows: int) -> None:
        if rows == 20:
            raise Enough

    async def work() -> None:
        async with example.mill.opened() as store:
            await change.prune(store, example.codes_queue, Filter(), timedelta(hours=1), batch=10, progress=stop)

    with pytest.raises(Enough):
        asyncio.run(work())
    assert len(shell.rows(codes)) == 5


def test_a_limit_is_kept(shell: Shell) -> None:
    shell.put(codes, *({"id": n, "state": 3} for n in range(1, 26)))

    assert shell.ok("requeue", "codes", "--limit", "7", "--yes", "--json").json["changed"] == 7
    assert shell.states(codes).count(0) == 7


def test_a_row_that_a_constraint_refuses_stays_and_the_rest_goes_on(shell: Shell) -> None:
    shell.put(files, *({"id": n, "status": "failed", "slot": f"s{n}"} for n in range(1, 10)))
    shell.put(files, {"id": 100, "status": "queued", "slot": "s5"})

    answer = shell("requeue", "files", "--yes", "--json")

    assert answer.code == 1
    assert (answer.json["changed"], answer.json["refused"]) == (8, 1)
    assert "constraint" in answer.err
    assert [row["id"] for row in shell.rows(files) if row["status"] == "failed"] == [5]


def test_a_row_that_is_taken_between_the_look_and_the_change_is_not_touched(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guard is in the statement: what was read before decides nothing."""
    shell.put(codes, {"id": 1, "state": 3}, {"id": 2, "state": 3})
    original = change._by_stage

    def meanwhile(connection: sa.Connection, *rest: Any) -> Any:
        connection.execute(sa.update(codes).where(codes.c.id == 1).values(state=1))
        return original(connection, *rest)

    monkeypatch.setattr(change, "_by_stage", meanwhile)

    assert shell.ok("requeue", "codes", "--yes", "--json").json["changed"] == 1
    assert shell.states(codes) == [1, 0]


def test_workers_are_told(shell: Shell) -> None:
    shell.put(codes, {"id": 1, "state": 3})
    told: list[str] = []

    async def work() -> None:
        async with example.mill.opened() as store:
            spy = Spy(store, told)
            await change.requeue(spy, example.codes_queue, Filter())

    asyncio.run(work())
    assert told == ["forget codes", "rouse codes"]


class Spy:
    """A store that notes who is told."""

    def __init__(self, store: Store, told: list[str]) -> None:
        self._store = store
        self._told = told

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def forget(self, queue: Any) -> None:
        self._told.append(f"forget {queue.name}")

    async def notify_workers(self, queues: Any) -> None:
        self._told.extend(f"rouse {queue.name}" for queue in queues)


def test_without_a_terminal_it_asks_for_yes_and_changes_nothing(every_state: Shell) -> None:
    before = every_state.rows(files)

    for command in (["requeue", "files"], ["prune", "files", "--older-than", "1h"]):
        answer = every_state(*command, "--json")
        assert answer.code == 2
        assert "1 row (" in answer.err
        assert "--yes" in answer.err
        assert answer.out == ""
    assert every_state.rows(files) == before


@pytest.mark.parametrize(("says", "code", "state"), [(True, 0, 0), (False, 1, 3)])
def test_on_a_terminal_it_shows_and_asks(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, says: bool, code: int, state: int
) -> None:
    shell.put(codes, *({"id": n, "state": 3} for n in range(1, 10)))
    asked = []

    def confirm(text: str, **_: Any) -> bool:
        asked.append(text)
        return says

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr(typer, "confirm", confirm)

    answer = shell("requeue", "codes")

    assert answer.code == code
    assert len(asked) == 1
    assert "9 rows (1, 2, 3, 4, 5, …)" in answer.err
    assert set(shell.states(codes)) == {state}


def test_a_dry_run_says_what_would_be_done(every_state: Shell) -> None:
    before = every_state.rows(files)

    answer = every_state.ok("requeue", "files", "--dry-run", "--json").json

    assert answer == {
        "queue": "files", "command": "requeue", "changed": 0, "dry_run": True,
        "matching": 1, "capped": False, "keys": ["4"], "untouched": [],
    }  # fmt: skip
    assert "would requeue 1 row (4)" in every_state.ok("requeue", "files", "--dry-run").out
    assert every_state.rows(files) == before


def test_nothing_to_do_is_no_failure(shell: Shell) -> None:
    assert shell.ok("requeue", "files", "--json").json["matching"] == 0
    assert "no rows" in shell.ok("requeue", "files").out


def test_a_cancelled_head_lets_the_next_of_its_key_go(shell: Shell) -> None:
    shell.put(events, {"id": 1, "aggregate": "a", "state": "ready"}, {"id": 2, "aggregate": "a", "state": "ready"})

    shell.ok("cancel", "events", "--key", "1", "--yes")
    shell.drain("events")

    assert shell.states(events) == ["cancelled", "done"]


def test_a_row_that_somebody_has_locked_is_passed_over(pg_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    shell = Shell(pg_url, capsys)
    shell.ok("migrate", "--tables")
    shell.put(codes, *({"id": n, "state": 3} for n in (1, 2, 3)))

    with psycopg.connect(pg_url) as other:
        other.execute("SELECT 1 FROM codes WHERE id = 2 FOR UPDATE")
        answer = shell.ok("requeue", "codes", "--yes", "--json").json
        named = shell("requeue", "codes", "--key", "2", "--yes")

    assert answer["changed"] == 2
    assert shell.states(codes) == [0, 3, 0]
    assert named.code == 1
    assert "1 of the rows that you named were taken or locked by somebody else" in named.err
