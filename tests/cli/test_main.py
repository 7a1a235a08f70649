"""Exit codes, errors in one line, and finding the mill."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
import typer

import rowmill
from rowmill.cli.errors import explain
from rowmill.cli.exits import Exit
from rowmill.cli.main import run
from rowmill.store.port import Disconnected
from rowmill.store.postgres.connection import reason
from tests.cli import example
from tests.cli.conftest import APP, Shell
from tests.cli.example import files

COMMANDS = ["stats", "list", "show", "why", "requeue", "cancel", "pause", "resume", "rescue", "prune", "migrate"]
ARGUMENTS = {
    "list": ["files"], "show": ["files", "1"], "why": ["files", "1"], "requeue": ["files"],
    "cancel": ["entities", "--all"], "pause": ["files"], "resume": ["files"], "prune": ["files", "--older-than", "1h"],
}  # fmt: skip


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own to stand in, with nothing in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROWMILL_APP", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"rowmill {rowmill.__version__}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([command, "--help"]) == 0
    text = capsys.readouterr().out
    assert f"rowmill {command}" in text.split("Example:")[1]
    assert "--json" in text


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["list"],
        ["list", "files", "--nonsense"],
        ["prune", "files"],
        *(["--app", APP, command, "files", "--limit", "9" * 19] for command in ("list", "requeue")),
    ],
)
def test_a_wrong_call_is_a_usage_error(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    assert capsys.readouterr().err


MISTAKES = [
    (["stats", "nope"], "files, entities"),
    (["stats", "entitys"], "Did you mean entities?"),
    (["list", "files", "--state", "failled"], "Did you mean failed?"),
    (["list", "files", "--columns", "stauts"], "Did you mean status?"),
    (["pause", "entities", "--stage", "enrch"], "Did you mean enrich?"),
    (["limits", "off", "eqs"], "Did you mean eqc?"),
    (["reconcile", "file"], "Did you mean files?"),
    (["list", "files", "--state", "quued"], "queued, processing, completed, failed"),
    (["list", "files", "--stage", "nope"], "work"),
    (["list", "files", "--since", "yesterday-ish"], "15m"),
    (["list", "files", "--since", "99999999999999d"], "15m"),
    (["list", "files", "--where", "nope = 1"], "nope"),
    (["list", "files", "--where", "id = = 1"], "--where"),
    (["list", "files", "--where", "id = $1"], "no parameters"),
    (["list", "files", "--where", ""], "--where"),
    (["show", "files", "seventeen"], "id"),
    (["show", "files", "9" * 30], "id"),
    (["show", 'Odd "Table".x', "a"], "Part 1|order"),
    (["requeue", "entities", "--to-stage", "nope", "--yes"], "link, enrich"),
    (["prune", "files", "--older-than", "2026-01-01"], "7d"),
]


def test_what_cannot_be_understood_is_a_usage_error_that_says_what_can(shell: Shell) -> None:
    for arguments, says in MISTAKES:
        answer = shell(*arguments)

        assert answer.code == 2, arguments
        assert says in answer.err
        assert answer.err.count("\n") == 1
        assert answer.out == ""


def test_a_row_that_is_not_there_is_a_failure(shell: Shell) -> None:
    for command in ("show", "why"):
        answer = shell(command, "files", "17")
        assert answer.code == 1
        assert answer.err == "rowmill: queue files has no row with the key 17\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_database_that_is_not_there(command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for url in (
        "postgresql://nobody:hush@127.0.0.1:1/none",
        "postgresql://127.0.0.1:1/none?user=nobody&password=hush&sslpassword=hush",
        f"sqlite:///{tmp_path}/no/folder/x.db",
    ):
        assert run(["--app", APP, "--database-url", url, command, *ARGUMENTS.get(command, [])]) == 3
        shown = capsys.readouterr()
        assert shown.out == ""
        assert "hush" not in shown.err
        assert shown.err.count("\n") == 1
        assert shown.err.startswith("rowmill: ")


def test_something_that_is_no_database_url(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--app", APP, "--database-url", "mysql://x", "stats"]) == 3
    assert run(["--app", APP, "--database-url", "nonsense", "stats"]) == 3
    assert "postgresql://" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["DATABASE_URL", "ROWMILL_DATABASE_URL"])
def test_a_database_url_that_is_set_and_empty_is_named(
    name: str, outside: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise the rows would be looked for in a file that happens to lie here."""
    for each in ("DATABASE_URL", "ROWMILL_DATABASE_URL"):
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setenv(name, " ")
    (outside / f"empty_{name.lower()}.py").write_text("import rowmill\nmill = rowmill.Mill()\n")

    for command in (["--app", f"empty_{name.lower()}:mill", "stats"], ["adopt", "jobs"]):
        assert run(command) == 3
        assert capsys.readouterr().err.startswith(f"rowmill: {name} is set, but empty. Write sqlite:///file.db")
    assert [file.suffix for file in outside.iterdir() if file.is_file()] == [".py"]


def test_an_empty_database_url_in_the_command_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (
        ["--app", APP, "--database-url", "", "stats"],
        ["stats", "--app", APP, "--database-url", " "],
        ["adopt", "jobs", "--database-url", ""],
    ):
        assert run(arguments) == 2
        assert capsys.readouterr().err.startswith("rowmill: --database-url is empty.")


@pytest.mark.parametrize(
    ("url", "path"), [("sqlite://foo.db", "foo.db"), ("sqlite://data/foo.db?timeout=3", "data/foo.db")]
)
def test_a_sqlite_url_with_two_slashes_is_explained(url: str, path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--app", APP, "--database-url", url, "stats"]) == 3
    assert f"three slashes before the path, or four if it begins at the root. Write sqlite:///{path}\n" in (
        capsys.readouterr().err
    )


@pytest.mark.empty_database
def test_a_database_without_our_tables(empty_shell: Shell) -> None:
    for command in COMMANDS:
        if command != "migrate":
            answer = empty_shell(command, *ARGUMENTS.get(command, []))
            assert answer.code == 4, command
            assert "Run: rowmill migrate" in answer.err


@pytest.mark.empty_database
@pytest.mark.parametrize("command", [*COMMANDS, "drain", "work"])
def test_a_sqlite_file_that_is_not_there_is_not_made_by_looking_for_it(
    command: str, sqlite_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--check"] if command == "migrate" else ARGUMENTS.get(command, [])

    assert run(["--app", APP, "--database-url", sqlite_url, command, *options]) == 4
    assert "rowmill.db yet. Run: rowmill migrate" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.empty_database
def test_a_table_that_is_not_there(empty_shell: Shell) -> None:
    empty_shell("migrate")

    for command in ("stats", "list", "requeue"):
        answer = empty_shell(command, *ARGUMENTS.get(command, []))
        assert answer.code == 4
        assert "files" in answer.err
        assert "rowmill migrate --tables" in answer.err


def test_a_column_that_is_not_there(shell: Shell) -> None:
    shell.do(lambda connection: connection.exec_driver_sql("ALTER TABLE files RENAME COLUMN error TO problem"))

    answer = shell("list", "files")

    assert answer.code == 4
    assert "rowmill adopt" in answer.err


def test_a_database_that_is_read_only(pg_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    shell = Shell(pg_url, capsys)
    shell.ok("migrate", "--tables")
    shell.put(files, {"id": 1, "status": "failed"})
    name = sa.make_url(pg_url).database
    shell.do(lambda c: c.exec_driver_sql(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on'))

    answer = shell("requeue", "files", "--yes")

    assert answer.code == 1
    assert "read-only" in answer.err


def test_values_of_rows_stay_out_of_errors(shell: Shell) -> None:
    shell.put(files, {"id": 1, "status": "failed", "path": "swordfish"})
    where = "CAST(path AS integer) > 0" if shell.url.startswith("postgresql") else "json_extract(path, '$.x') = 1"

    answer = shell("list", "files", "--where", where)

    assert answer.code in (1, 2)
    assert answer.err
    assert "swordfish" not in answer.err + answer.out


def test_a_constraint_does_not_tell_the_row(shell: Shell) -> None:
    shell.put(files, {"id": 1, "status": "failed", "slot": "swordfish"})
    shell.put(files, {"id": 2, "status": "queued", "slot": "swordfish"})

    answer = shell("requeue", "files", "--yes")

    assert answer.code == 1
    assert "swordfish" not in answer.err


def test_an_unexpected_error_is_one_line_unless_debugged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("swordfish")

    monkeypatch.setattr("rowmill.cli.stats.load_mill", broken)

    assert run(["stats"]) == 1
    assert capsys.readouterr().err == "rowmill: unexpected ZeroDivisionError. See where: rowmill --debug …\n"
    assert run(["--debug", "stats"]) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, typer.Abort])
def test_an_interrupted_command(monkeypatch: pytest.MonkeyPatch, interruption: type[BaseException]) -> None:
    def interrupted(*_: object) -> None:
        raise interruption

    monkeypatch.setattr("rowmill.cli.stats.load_mill", interrupted)

    assert run(["stats"]) == 130


def test_a_broken_connection_is_told_without_the_statement() -> None:
    error = sa.exc.OperationalError("SELECT :name", {"name": "swordfish"}, Exception("gone\nDETAIL: swordfish"))

    assert reason(error) == "OperationalError: gone"


def test_a_broken_connection_is_a_database_out_of_reach() -> None:
    assert explain(Disconnected("x"))[0] is Exit.UNREACHABLE
    assert explain(ConnectionRefusedError())[0] is Exit.UNREACHABLE
    assert explain(sa.exc.DBAPIError("x", {}, Exception("x"), connection_invalidated=True))[0] is Exit.UNREACHABLE


MODULE = """
import rowmill
mill = rowmill.Mill("sqlite:///here.db")
other = rowmill.Mill("sqlite:///other.db")
number = 3
"""


@pytest.mark.parametrize("how", ["option", "option after", "variable", "project", "project above", "no attribute"])
def test_the_mill_is_found(
    outside: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    name = f"app_{how.replace(' ', '_')}"
    (outside / f"{name}.py").write_text(MODULE)
    arguments = ["migrate"]
    match how:
        case "option":
            arguments = ["--app", f"{name}:mill", *arguments]
        case "option after":
            arguments = [*arguments, "--app", f"{name}:mill"]
        case "no attribute":
            arguments = ["--app", name, *arguments]
        case "variable":
            monkeypatch.setenv("ROWMILL_APP", f"{name}:mill")
        case _:
            (outside / "pyproject.toml").write_text(f'[tool.rowmill]\napp = "{name}:mill"\n')
            if how == "project above":
                (outside / "below").mkdir()
                monkeypatch.chdir(outside / "below")

    assert run(arguments) == 0, capsys.readouterr().err
    assert (Path.cwd() / "here.db").exists()


@pytest.mark.parametrize(
    ("app", "code", "says"),
    [
        (None, 2, "--app module:mill"),
        (":mill", 2, "no module"),
        (".finds:mill", 2, "as Python imports it"),
        ("../finds.py:mill", 2, "as Python imports it"),
        ("no_such_module:mill", 2, "no_such_module"),
        ("finds:number", 2, "not a Mill but int"),
        ("finds:nothing", 2, "It has: mill, other"),
        ("imports_what_is_missing:mill", 1, "no_such_package"),
        ("breaks:mill", 1, "ValueError: bad luck"),
    ],
)
def test_a_mill_that_is_not_found(
    outside: Path, capsys: pytest.CaptureFixture[str], app: str | None, code: int, says: str
) -> None:
    (outside / "finds.py").write_text(MODULE)
    (outside / "imports_what_is_missing.py").write_text("import no_such_package")
    (outside / "breaks.py").write_text("raise ValueError('bad luck')")

    assert run([*(["--app", app] if app else []), "stats"]) == code
    err = capsys.readouterr().err
    assert says in err
    assert err.count("\n") == 1


def test_the_process_itself_answers_the_code(sqlite_url: str, tmp_path: Path) -> None:
    def rowmill_process(*arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-c", "from rowmill.cli.main import main; main()", *arguments]
        root = Path(__file__).parents[2]
        environment = os.environ | {"ROWMILL_APP": APP, "PYTHONPATH": str(root)}
        return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)

    done = rowmill_process("migrate", "--tables", "--database-url", sqlite_url, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert rowmill_process("stats", "nope", "--database-url", sqlite_url).returncode == 2


def test_what_a_driver_leaves_behind_is_no_news() -> None:
    """asyncpg does, when it is cancelled while it connects."""
    code = (
        "import asyncio, rowmill.cli.stats as stats\n"
        "from rowmill.cli.main import main\n"
        "async def gather(*_):\n"
        "    asyncio.get_running_loop().create_future().set_exception(ConnectionError('swordfish'))\n"
        "    raise KeyboardInterrupt\n"
        "stats.gather = gather\n"
        "main()\n"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code, "--app", APP, "stats"],
        capture_output=True, text=True, cwd=root, check=False,
        env=os.environ | {"PYTHONPATH": f"{root / 'src'}:{root}"},
    )  # fmt: skip

    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_a_signal_interrupts(sqlite_url: str) -> None:
    example.mill.move_to(sqlite_url)
    asyncio.run(example.mill.migrate(tables=True))
    code = (
        "import os, signal, rowmill.cli.stats as stats\n"
        "from rowmill.cli.main import main\n"
        "async def gather(*_):\n"
        "    import asyncio\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    await asyncio.Event().wait()\n"
        "stats.gather = gather\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a job in the background ignores it
        "main()\n"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code, "--app", APP, "stats"],
        capture_output=True, text=True, cwd=root, env=os.environ | {"PYTHONPATH": str(root)}, check=False,
    )  # fmt: skip

    assert done.returncode == 128 + signal.SIGINT
    assert "Traceback" not in done.stderr
