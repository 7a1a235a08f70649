"""reconcile: a plan unless it is told to execute, exit codes for scripts, history, and its line in stats."""

import re
from collections.abc import Iterator

import pytest

from tests.cli import example
from tests.cli.conftest import Shell
from tests.cli.example import files


@pytest.fixture(autouse=True)
def full_bucket(shell: Shell) -> Iterator[None]:
    shell.put(files, *({"id": key, "status": "completed"} for key in range(1, 6)))
    example.blobs[:] = [1, 2, 9]
    yield
    example.blobs.clear()


def test_without_execute_it_only_says_what_differs(shell: Shell) -> None:
    answer = shell("reconcile", "files", "--json")

    assert answer.code == 5
    [report] = answer.json["reconciliations"]
    assert report["executed"] is False
    assert report["counts"] == {"row_without_blob": 3, "blob_without_row": 1}
    assert (report["planned"], report["corrected"], report["remaining"]) == (2, 0, 1)
    assert [(one["kind"], one["key"]) for one in report["findings"]][-1] == ("blob_without_row", "9")
    assert "secret-path" not in answer.out
    assert shell.states(files, "status") == ["completed"] * 5
    assert shell.ok("reconcile", "--history", "--json").json == {"runs": []}


def test_execute_corrects_and_the_second_run_has_nothing_new(shell: Shell, caplog: pytest.LogCaptureFixture) -> None:
    first = shell("reconcile", "--execute")
    second = shell("reconcile", "--execute", "--json")

    assert first.code == second.code == 5
    assert "4 findings" in first.out
    assert "2 corrected; 1 left to the next run" in first.out
    assert "alert=RECONCILIATION_DRIFT severity=ERROR" in caplog.text
    assert shell.states(files, "status").count("queued") == 3
    [report] = second.json["reconciliations"]
    assert (report["new"], report["corrected"]) == (0, 1)
    assert shell("reconcile", "--execute", "--json").json["reconciliations"][0]["corrected"] == 0


def test_all_is_well_with_exit_code_zero(shell: Shell) -> None:
    example.blobs[:] = range(1, 6)

    assert "no findings" in shell.ok("reconcile", "--execute").out


def test_an_inventory_that_could_not_be_observed_is_no_success(shell: Shell) -> None:
    example.blobs[:] = [1, 2, -1]
    answer = shell("reconcile")

    assert answer.code == 1
    assert "inventory blobs was read only up to 2 (bucket_down: no answer)" in answer.err
    assert "no findings" in answer.out


def test_an_inventory_out_of_order_says_where(shell: Shell) -> None:
    example.blobs[:] = [2, 1]
    answer = shell("reconcile", "--execute")

    assert answer.code == 1
    assert "inventory blobs is not in ascending order: 2 at position 1, then 1 at position 2" in answer.err


def test_history_and_stats_tell_of_the_last_runs(shell: Shell) -> None:
    shell("reconcile", "--execute")
    [run] = shell.ok("reconcile", "--history", "--json").json["runs"]
    assert (run["name"], run["outcome"], run["findings"], run["corrected"]) == ("files", "ok", 4, 2)
    assert "files" in shell.ok("reconcile", "--history").out

    [last] = shell.ok("stats", "--json").json["reconciliations"]
    assert last["kinds"] == {"row_without_blob": 3, "blob_without_row": 1}
    assert re.search(r"reconciliation files: drift 4, last run \S+ \S+ UTC, ok", shell.ok("stats").out)


def test_a_name_that_is_not_there_is_a_usage_error(shell: Shell) -> None:
    answer = shell("reconcile", "nope")

    assert answer.code == 2
    assert "no reconciliation nope. It has: files" in answer.err


def drift(shell: Shell) -> list[tuple[str, str, float | None]]:
    """What a watcher tells of reconciliations."""
    found = shell("watch", "--once", "--json").json["alerts"]
    return [(one["alert"], one["severity"], one["value"]) for one in found if one["reconciliation"] == "files"]


def test_a_watcher_tells_of_drift_until_a_run_finds_less(shell: Shell) -> None:
    assert drift(shell) == [], "nothing has run yet"
    shell("reconcile", "--execute")
    assert drift(shell) == [("RECONCILIATION_DRIFT", "ERROR", 4)]
    assert "files" in shell("watch", "--once").out
    example.blobs[:] = [1, 2, 3, 4]
    shell("reconcile", "--execute")
    assert drift(shell) == []


def test_a_watcher_tells_of_a_run_that_could_not_observe_everything(shell: Shell) -> None:
    example.blobs[:] = [1, 2, -1]
    shell("reconcile", "--execute")
    assert drift(shell) == [("RECONCILIATION_INCOMPLETE", "WARNING", None)]
