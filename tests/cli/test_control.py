"""pause, resume, rescue, migrate."""

import pytest
import sqlalchemy as sa

from rowmill.model.lease import token
from rowmill.store.indexes import PREFIX
from rowmill.store.own import schema
from rowmill.store.own.schema import own_tables
from rowmill.testing import mill_on
from tests.cli import example
from tests.cli.conftest import Shell
from tests.cli.example import entities, files


def pauses(shell: Shell) -> set[tuple[str, str]]:
    def work(connection: sa.Connection) -> set[tuple[str, str]]:
        pause = own_tables(connection.dialect.name).pause
        return {(row.queue, row.stage) for row in connection.execute(sa.select(pause))}

    found: set[tuple[str, str]] = shell.do(work)
    return found


def test_pause_and_resume(shell: Shell) -> None:
    assert shell.ok("pause", "files", "--json").json == {
        "queue": "files", "stage": None, "paused": True, "changed": True,
    }  # fmt: skip
    assert shell.ok("pause", "files", "--json").json["changed"] is False
    assert pauses(shell) == {("files", "")}

    assert shell.ok("resume", "files", "--json").json == {
        "queue": "files", "stage": None, "paused": False, "changed": True,
    }  # fmt: skip
    assert pauses(shell) == set()
    assert "was not paused" in shell.ok("resume", "files").out


def test_a_paused_queue_is_not_drained(shell: Shell) -> None:
    shell.put(files, {"id": 1, "status": "queued"})
    shell.ok("pause", "files")
    shell.drain("files")
    assert shell.states(files, "status") == ["queued"]

    shell.ok("resume", "files")
    shell.drain("files")
    assert shell.states(files, "status") == ["completed"]


def test_stages_are_paused_by_themselves_and_resumed_with_the_queue(shell: Shell) -> None:
    shell.ok("pause", "entities")
    shell.ok("pause", "entities", "--stage", "link")
    shell.ok("pause", "entities", "--stage", "enrich")

    answer = shell.ok("resume", "entities", "--stage", "link")

    assert "all of entities is paused" in answer.out
    assert pauses(shell) == {("entities", ""), ("entities", "enrich")}
    shell.ok("resume", "entities")
    assert pauses(shell) == set()


def test_an_unknown_stage_is_not_paused(shell: Shell) -> None:
    answer = shell("pause", "entities", "--stage", "lnik")

    assert answer.code == 2
    assert "link, enrich" in answer.err


def test_rescue_gives_back_or_buries(shell: Shell) -> None:
    past, future = shell.now(files, "leased_until", -5), shell.now(files, "leased_until", 600)
    shell.put(
        files,
        {"id": 1, "status": "processing", "attempts": 1, "lease": token(1, 1), "leased_until": past},
        {"id": 2, "status": "processing", "attempts": 2, "lease": token(1, 2), "leased_until": past},
        {"id": 3, "status": "processing", "attempts": 1, "lease": token(1, 3), "leased_until": future},
    )
    assert shell.ok("rescue", "--dry-run", "--json").json["matching"] == 2
    assert shell("rescue").code == 2

    answer = shell.ok("rescue", "--yes", "--json").json

    assert (answer["returned"], answer["buried"]) == (1, 1)
    assert shell.states(files, "status") == ["queued", "failed", "processing"]


def test_rescue_goes_on_until_nothing_is_left(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowmill.cli.control.SWEEP", 2)
    past = shell.now(files, "leased_until", -5)
    shell.put(
        files,
        *(
            {"id": n, "status": "processing", "attempts": 1, "lease": token(1, n), "leased_until": past}
            for n in range(1, 6)
        ),
    )

    assert shell.ok("rescue", "files", "--yes", "--json").json["returned"] == 5


@pytest.mark.empty_database
def test_migrate_makes_everything_and_is_fine_twice(empty_shell: Shell) -> None:
    assert empty_shell("migrate", "--check").code == 4

    first = empty_shell("migrate", "--json")
    assert first.code == 4
    assert "files" in first.json["missing"]
    assert first.json["steps"] == list(schema.MIGRATIONS)

    second = empty_shell.ok("migrate", "--tables", "--json").json
    assert (second["steps"], second["missing"]) == ([], [])
    assert "files" in second["created"]
    assert "as before" in empty_shell.ok("migrate", "--tables").out
    assert empty_shell.ok("migrate", "--check").code == 0


def test_migrate_checks_the_indexes_too(shell: Shell) -> None:
    shell.do(lambda connection: connection.exec_driver_sql("DROP INDEX rowmill_files_work_ready"))
    missing = shell("migrate", "--check")
    assert (missing.code, "rowmill_files_work_ready is missing" in missing.out) == (4, True)

    shell.ok("migrate")
    shell.ok("migrate", "--check")


def test_a_column_that_is_only_in_the_code_is_to_do(shell: Shell) -> None:
    """The class got a column, and the migration was forgotten: no worker starts, and a pipeline hears of it."""
    shell.do(lambda connection: connection.exec_driver_sql("ALTER TABLE files DROP COLUMN path"))
    shell.do(lambda connection: connection.exec_driver_sql("ALTER TABLE files DROP COLUMN error"))

    for option in ([], ["--tables"], ["--check"]):
        answer = shell("migrate", *option)
        assert answer.code == 4
        assert "ALTER TABLE files ADD COLUMN path TEXT DEFAULT 'secret-path' NOT NULL" in answer.out
        assert "table files lacks column error in the database. Run: rowmill adopt files --apply" in answer.out
    drained = shell("drain", "--queue", "files")
    assert (drained.code, "lacks column path" in drained.err) == (4, True)


@pytest.mark.empty_database
def test_a_table_that_is_missing_ends_a_worker_with_4(empty_shell: Shell) -> None:
    empty_shell("migrate")

    drained = empty_shell("drain", "--queue", "files")

    assert (drained.code, "there is no table files" in drained.err) == (4, True)


def test_an_index_of_another_shape_is_said_and_left(shell: Shell) -> None:
    """To make it anew may take long on a big table: that is adopt's to do."""
    shell.do(lambda connection: connection.exec_driver_sql("DROP INDEX rowmill_files_work_ready"))
    shell.do(lambda connection: connection.exec_driver_sql("CREATE INDEX rowmill_files_work_ready ON files (status)"))

    for option in ([], ["--check"]):
        answer = shell("migrate", *option)
        assert (answer.code, "Run: rowmill adopt files --apply" in answer.out) == (4, True)


def test_a_trigger_that_is_missing_is_to_do(pg_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    shell = Shell(pg_url, capsys)
    shell.ok("migrate", "--tables")
    shell.do(lambda connection: connection.exec_driver_sql("DROP TRIGGER rowmill_wake ON files"))

    assert shell("migrate", "--check").code == 4
    shell.ok("migrate")
    shell.ok("migrate", "--check")


@pytest.mark.empty_database
def test_another_database_gets_indexes_in_its_own_spelling(empty_shell: Shell) -> None:
    """The example is declared on SQLite; on PostgreSQL its rows without a time have to sort first."""
    example.mill.move_to("sqlite:///nowhere/at/all.db")
    empty_shell.ok("migrate", "--tables")

    assert ("NULLS FIRST" in empty_shell.do(ready_index)) == (example.mill.store.dialect.name == "postgresql")
    assert len([index for index in entities.indexes if str(index.name).startswith(PREFIX)]) == 5


async def test_a_bench_on_another_database_does_too(pg_url: str) -> None:
    example.mill.move_to("sqlite:///nowhere/at/all.db")

    async with mill_on(example.mill, pg_url) as bench:
        assert "NULLS FIRST" in await bench.mill.run(ready_index)

    assert example.mill.url.get_backend_name() == "sqlite"


def ready_index(connection: sa.Connection) -> str:
    if connection.dialect.name == "postgresql":
        statement = "SELECT indexdef FROM pg_indexes WHERE indexname = 'rowmill_files_work_ready'"
    else:
        statement = "SELECT sql FROM sqlite_master WHERE name = 'rowmill_files_work_ready'"
    return str(connection.exec_driver_sql(statement).scalar_one())
