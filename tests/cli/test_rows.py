"""list, show: rows, filtered."""

import shlex
from uuid import UUID

import pytest
import sqlalchemy as sa

from rowmill.store.clock import moment
from rowmill.store.own.schema import own_tables
from tests.cli.conftest import Shell
from tests.cli.example import ODD, codes, entities, files, odd


@pytest.fixture
def filled(shell: Shell) -> Shell:
    old, new = shell.now(files, "available_at", -7200), shell.now(files, "available_at", -60)
    shell.put(
        files,
        {"id": 1, "status": "queued", "available_at": new},
        {"id": 2, "status": "failed", "error": "timeout: took too long", "finished_at": old},
        {"id": 3, "status": "failed", "error": "timeout", "finished_at": new},
        {"id": 4, "status": "failed", "error": "timeouts are common", "finished_at": new},
        {"id": 5, "status": "processing", "available_at": old, "path": "100%:x"},
        {"id": 6, "status": "queued", "available_at": shell.now(files, "available_at", 3600)},
        {"id": 7, "status": "strange"},
    )
    return shell


FILTERS = {
    "": "1 2 3 4 5 6 7",
    "--state failed": "2 3 4",
    "--state dead": "2 3 4",
    "--state queued": "1 6",
    "--state waiting": "6",
    "--state unknown": "7",
    "--state cancelled": "",
    "--state dead --state processing": "2 3 4 5",
    "--error-code timeout": "2 3",
    "--error-code time%": "",
    "--since 1h --state dead": "3 4",
    "--until 1h": "2 5",
    "--until 2999-01-01": "1 2 3 4 5 6",
    "--since 2999-01-01T00:00+02:00": "",
    "--where \"path LIKE '100%:%' -- a comment\"": "5",
    "--where \"path <> '$1?:x' AND id < 2\"": "1",
    "--where 'id > 2 OR id = 1' --state dead": "3 4",
    "--key 2 --key 6": "2 6",
    "--stage work --state queued": "1 6",
}


def test_every_filter_chooses_its_rows(filled: Shell) -> None:
    found = {}
    for options in FILTERS:
        answer = filled.ok("list", "files", "--json", *shlex.split(options)).json
        found[options] = " ".join(row["key"] for row in answer["rows"])

    assert found == FILTERS


def test_a_list_is_limited_and_says_that_there_is_more(filled: Shell) -> None:
    answer = filled.ok("list", "files", "--limit", "2", "--json").json

    assert ([row["key"] for row in answer["rows"]], answer["more"]) == (["1", "2"], True)
    assert "more" in filled.ok("list", "files", "--limit", "2").out


def test_a_listed_row_tells_its_progress(filled: Shell) -> None:
    row = filled.ok("list", "files", "--key", "2", "--json").json["rows"][0]

    assert row["finished_at"].endswith("+00:00")
    assert {name: row[name] for name in ("state", "kind", "stage", "attempts", "worker", "error", "available_at")} == {
        "state": "failed", "kind": "dead", "stage": None, "attempts": 0, "worker": None,
        "error": "timeout: took too long", "available_at": None,
    }  # fmt: skip


def test_codes_and_epochs_are_understood(shell: Shell) -> None:
    shell.put(codes, {"id": 1, "state": 3, "finished_at": shell.now(codes, "finished_at", -60)}, {"id": 2, "state": 9})

    assert [
        row["key"] for row in shell.ok("list", "codes", "--state", "3", "--since", "1h", "--json").json["rows"]
    ] == ["1"]
    assert shell.ok("list", "codes", "--state", "dead", "--until", "1h", "--json").json["rows"] == []
    assert [row["key"] for row in shell.ok("list", "codes", "--state", "unknown", "--json").json["rows"]] == ["2"]


def test_a_mapped_column_of_codes_decides(shell: Shell) -> None:
    shell.put(entities, {"id": UUID(int=1), "state": "FAILED", "code": "gone", "error": "other: x"})

    assert len(shell.ok("list", "entities", "--error-code", "gone", "--json").json["rows"]) == 1
    assert shell.ok("list", "entities", "--error-code", "other", "--json").json["rows"] == []


def test_dead_rows_are_found_by_the_stage_that_failed(shell: Shell) -> None:
    shell.put(entities, *({"id": UUID(int=n), "state": "PENDING"} for n in (1, 2, 3)))
    shell.drain("entities")

    def keys(stage: str) -> list[str]:
        return [row["key"] for row in shell.ok("list", "entities", "--stage", stage, "--json").json["rows"]]

    assert keys("link") == [str(UUID(int=1))]
    assert keys("enrich") == [str(UUID(int=2))]


def test_a_table_whose_names_need_quotes(shell: Shell) -> None:
    shell.put(odd, {"Part 1": "a|b", "order": 1, "State?": "can'celled"}, {"Part 1": "c", "order": 2, "State?": "dead"})

    assert [row["key"] for row in shell.ok("list", ODD, "--state", "can'celled", "--json").json["rows"]] == ["a|b|1"]
    assert shell.ok("show", ODD, "c|2", "--json").json["values"]["State?"] == "dead"
    assert shell.ok("show", ODD, '["a|b", 1]', "--json").json["key"] == "a|b|1"


def test_show_tells_a_row_and_its_history(shell: Shell) -> None:
    shell.put(files, {"id": 1, "status": "queued", "slot": "broken"})
    shell.drain("files")

    answer = shell.ok("show", "files", "1", "--json").json

    assert (answer["row"]["kind"], answer["values"]["path"]) == ("dead", "secret-path")
    assert [(one["stage"], one["attempt"], one["code"], one["message"]) for one in answer["history"]] == [
        ("work", 1, "broken", "no use")
    ]
    text = shell.ok("show", "files", "1").out
    assert "broken" in text
    assert "secret-path" in text


def test_control_characters_of_a_row_do_not_reach_the_screen(shell: Shell) -> None:
    shell.put(files, {"id": 1, "status": "failed", "error": "\x1b[2J\rgone\nline"})

    assert "\x1b" not in shell.ok("list", "files").out
    assert "\x1b" not in shell.ok("show", "files", "1").out


def test_list_shows_the_columns_that_were_asked_for(shell: Shell) -> None:
    shell.put(files, {"id": 1, "status": "queued", "slot": "[red]"}, {"id": 2, "status": "odd"})

    rows = shell.ok("list", "files", "--columns", "status, id,slot", "--json").json["rows"]
    text = shell.ok("list", "files", "--columns", "slot,status").out

    assert rows == [{"id": 1, "slot": "[red]", "status": "queued"}, {"id": 2, "slot": None, "status": "odd"}]
    assert text.splitlines() == ["slot   status", "[red]  queued", "NULL   odd"]
    for wrong, says in (
        ("id,nope", "has no column 'nope'. Its columns: id, path, slot"),
        (" , ", "--columns id,status"),
    ):
        answer = shell("list", "files", "--columns", wrong)
        assert (answer.code, answer.out) == (2, "")
        assert says in answer.err


def test_list_sorts_by_a_column_that_has_an_index(shell: Shell) -> None:
    shell.put(files, *({"id": n, "status": "queued", "path": path} for n, path in enumerate("bca", start=1)))

    def keys(*options: str) -> list[str]:
        return [row["key"] for row in shell.ok("list", "files", *options, "--json").json["rows"]]

    shell.do(lambda connection: connection.exec_driver_sql("CREATE INDEX by_path ON files (path, id)"))
    assert keys("--sort", "path") == ["3", "1", "2"]
    assert keys("--sort", "path", "--desc", "--limit", "2") == ["2", "1"]
    assert keys("--sort", "id", "--desc") == ["3", "2", "1"]
    assert shell.ok("list", "files", "--columns", "path", "--sort", "path").out.splitlines() == ["path", "a", "b", "c"]


def test_list_does_not_sort_by_what_no_index_serves(shell: Shell) -> None:
    """An index on some of the rows does not serve all of them."""
    for column in ("path", "slot", "status"):
        answer = shell("list", "files", "--sort", column)
        assert (answer.code, answer.out) == (2, "")
        assert f"no index of table files begins with {column}" in answer.err
        assert answer.err.endswith("Sort by: id\n")
    assert "has no column 'nope'" in shell("list", "files", "--sort", "nope").err
    assert shell("list", "files", "--desc").code == 2


def test_show_prints_the_last_traceback_and_all_of_them_in_full(shell: Shell) -> None:
    shell.put(files, {"id": 1, "status": "failed"})

    def fail(connection: sa.Connection) -> None:
        attempt = own_tables(connection.dialect.name).attempt
        told = {"queue": "files", "key": "1", "stage": "work", "worker": 1, "code": "lost", "message": "gone"}
        for number in (1, 2, 3):
            place = None if number == 3 else f"Traceback, line {number}\n  [bold]{number}\x1b[2J"
            entry = told | {"attempt": number, "traceback": place}
            connection.execute(sa.insert(attempt).values(**entry, ended_at=moment(connection.dialect.name)))

    shell.do(fail)
    text, full = shell.ok("show", "files", "1").out, shell.ok("show", "files", "1", "--full").out
    history = shell.ok("show", "files", "1", "--json").json["history"]

    assert "\nattempt 2 at stage work, lost:\nTraceback, line 2\n  [bold]2 [2J\n" in text
    assert "line 1" not in text
    assert text.endswith("--full shows the tracebacks of 1 more\n")
    assert "line 1" in full
    assert "line 2" in full
    assert [bool(one["traceback"]) for one in history] == [True, True, False]
