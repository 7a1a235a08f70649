"""Every command answers the same code for the same thing: 2 called wrongly, 3 no database, 4 no tables, 130 Ctrl-C."""

import io
import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from rowmill.cli.help import subcommands
from rowmill.cli.main import app, run
from tests.cli.everything import mill
from tests.support.python import PIPE, Python

APP = "tests.cli.everything:mill"
ROOT = Path(__file__).parents[2]
ID = "0b6e0f0e-8f6c-4c5b-9f0e-2a7f3c1d9a11"
UNREACHABLE = "postgresql://nobody:hush@127.0.0.1:1/none"

CALLS: dict[str, list[str]] = {
    "work": [], "drain": [], "watch": ["--once"], "reconcile": [],
    "stats": [], "sql": ["jobs"], "list": ["jobs"], "show": ["jobs", "1"], "why": ["jobs", "1"],
    "outbox stats": [], "outbox list": [],
    "limits": [], "limits park": ["api"], "limits off": ["api"], "limits on": ["api"],
    "schedule list": [], "schedule history": ["beat"], "schedule run": ["beat"], "schedule pause": ["beat"],
    "schedule resume": ["beat"],
    "requeue": ["jobs"], "cancel": ["jobs", "--all"], "prune": ["jobs", "--older-than", "1h"],
    "pause": ["jobs"], "resume": ["jobs"], "rescue": [],
    "adopt": ["jobs"], "doctor": [], "grants": ["--role", "somebody"], "migrate": ["--check"], "demo": [],
    "systems intake migrate": [], "systems intake work": [], "systems intake serve": ["--port", "0"],
    "systems intake ingest": [__file__],
    "systems entities migrate": [], "systems entities work": [], "systems entities serve": ["--port", "0"],
    "systems entities link": ["names.csv", "--column", "name"],
    "systems entities kb build": ["a.csv", "b.kb"], "systems entities kb search": ["Ada"],
    "systems companies migrate": [], "systems companies work": [], "systems companies serve": ["--port", "0"],
    "systems companies resolve": ["names.csv", "--column", "name"], "systems companies process": [],
    "systems companies stats": [], "systems companies requeue": ["--failed"], "systems companies export": [],
    "systems companies rotate-salt": ["--execute"], "systems companies renormalize": ["--execute"],
    "systems companies review": [], "systems companies review choose": ["1", "2"],
    "systems companies review none": ["1"],
    "systems companies mappings import": ["names.csv"], "systems companies mappings export": [],
    "systems companies mappings conflicts": [], "systems companies mappings decide": ["1", "2"],
    "systems companies targets list": [], "systems companies targets add": ["policies", "company_id"],
    "systems companies targets remove": ["policies", "company_id"], "systems companies targets sweep": [],
    "systems articles migrate": [], "systems articles work": [], "systems articles serve": ["--port", "0"],
    "systems articles add": ["https://example.org/feed", "--no-discover"], "systems articles sync": [],
    "systems articles feeds": [], "systems articles stats": [], "systems articles requeue": ["--failed"],
    "systems articles opml export": [], "systems articles train": ["labels.csv"],
    "systems articles evaluate": ["labels.csv"],
    "systems knowledge migrate": [], "systems knowledge work": [], "systems knowledge serve": ["--port", "0"],
    "systems knowledge add": [__file__], "systems knowledge search": ["whales"], "systems knowledge ask": ["why?"],
    "systems knowledge documents": [], "systems knowledge reprocess": ["--failed"],
    "systems knowledge delete": [ID, "--yes"], "systems knowledge stats": [], "systems knowledge fsck": [],
    "systems knowledge kb create": ["Sea"], "systems knowledge kb list": [],
    "systems knowledge kb delete": ["Sea", "--yes"], "systems knowledge users list": [],
    "systems knowledge users add": ["ann@example.org", "--password-stdin"],
    "systems knowledge users change": ["ann@example.org", "--inactive"],
    "systems knowledge users password": ["ann@example.org", "--password-stdin"],
    "systems knowledge users token": ["ann@example.org"],
    "systems knowledge users delete": ["ann@example.org", "--yes"],
}  # fmt: skip
"""How each command is called rightly."""
WITHOUT_DATABASE = {
    "sql", "systems entities kb build", "systems entities kb search", "systems articles train",
    "systems articles evaluate",
}  # fmt: skip
WITHOUT_JSON = {
    "work", "systems intake serve", "systems intake work", "systems entities serve", "systems entities work",
    "systems entities link", "systems companies serve", "systems companies work", "systems companies export",
    "systems companies mappings export", "systems articles serve", "systems articles work",
    "systems articles opml export", "systems knowledge serve", "systems knowledge work",
}  # fmt: skip
NOT_MIGRATED = {"adopt": 5, "doctor": 5, "grants": 0, "systems intake migrate": 0, "systems entities migrate": 0,
                "systems companies migrate": 0, "systems articles migrate": 0,
                "systems knowledge migrate": 0}  # fmt: skip
"""Those that look at, or make, what is missing; of all others, 4."""


def commands(group: Any, *before: str) -> Iterator[str]:
    for name, command in subcommands(group).items():
        if not hasattr(command, "commands") or command.invoke_without_command:
            yield " ".join([*before, name])
        if hasattr(command, "commands"):
            yield from commands(command, *before, name)


def called(name: str, url: str) -> int:
    here = [] if name in WITHOUT_DATABASE else ["--database-url", url]
    before = [] if name.startswith(("systems", "demo")) else ["--app", APP]
    return run([*before, *name.split(), *here, *CALLS[name]])


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own to stand in."""
    monkeypatch.chdir(tmp_path)
    for name in [
        name
        for name in os.environ
        if name.startswith(("ROWMILL_", "DATABASE_", "INTAKE_", "ENTITIES_", "WDH_", "ARTICLES_", "KNOWLEDGE_"))
    ]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("INTAKE_STORAGE", str(tmp_path / "files"))
    monkeypatch.setenv("KNOWLEDGE_ENDPOINT_URL", "http://127.0.0.1:1/v1")
    monkeypatch.setenv("KNOWLEDGE_ANSWER_MODEL", "small")
    monkeypatch.setattr("sys.stdin", io.StringIO("correct horse battery\n"))
    monkeypatch.syspath_prepend(str(ROOT))
    (tmp_path / "names.csv").write_text("name\nAda Lovelace\n")
    return tmp_path


def test_every_command_is_held_to_this() -> None:
    assert sorted(commands(typer.main.get_command(app))) == sorted(CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_call(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*name.split(), *CALLS[name], "--nonsense"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "nonsense" in shown.err


@pytest.mark.parametrize("name", CALLS)
def test_help_has_an_example_of_the_command_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*name.split(), "--help"]) == 0
    text = capsys.readouterr().out
    assert f"rowmill {name}" in text.split("Example:")[1]
    assert "[[" not in text, "what may be left out has one pair of brackets"
    assert ("--json" in text) is (name not in WITHOUT_JSON)


@pytest.mark.parametrize("name", [name for name in CALLS if name not in WITHOUT_DATABASE])
def test_a_database_that_does_not_answer(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert called(name, UNREACHABLE) == 3
    shown = capsys.readouterr()
    assert "hush" not in shown.out + shown.err
    assert "Traceback" not in shown.err
    if name != "watch":  # for which it is an alert
        assert (shown.out, shown.err.count("\n")) == ("", 1)


@pytest.mark.parametrize("name", [name for name in CALLS if name not in WITHOUT_DATABASE])
def test_an_empty_url(name: str, capsys: pytest.CaptureFixture[str], place: Path) -> None:
    assert called(name, "") == 2
    assert "--database-url is empty" in capsys.readouterr().err
    assert [file.name for file in place.iterdir()] == ["names.csv"]


@pytest.mark.parametrize("name", [name for name in CALLS if not name.startswith("systems") and name != "demo"])
def test_an_empty_name_of_the_mill(name: str, capsys: pytest.CaptureFixture[str], sqlite_url: str) -> None:
    (Path.cwd() / "pyproject.toml").write_text(f'[tool.rowmill]\napp = "{APP}"\n')
    assert run([*name.split(), *CALLS[name], "--app", "", "--database-url", sqlite_url]) == 2
    assert "--app is empty" in capsys.readouterr().err


@pytest.mark.empty_database
@pytest.mark.parametrize("name", [name for name in CALLS if name not in {*WITHOUT_DATABASE, "demo"}])
def test_a_database_without_tables(name: str, pg_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    if name == "adopt":
        mill.move_to(pg_url)
        with mill.store.sync_engine.begin() as connection:
            mill["jobs"].table.create(connection)
        mill.store.sync_engine.dispose()

    assert called(name, pg_url) == NOT_MIGRATED.get(name, 4)
    shown = capsys.readouterr()
    if name not in NOT_MIGRATED:
        assert "migrate" in shown.err
        assert (shown.out, shown.err.count("\n")) == ("", 1)


MILL_COMMANDS = [name for name in CALLS if not name.startswith("systems") and name not in ("demo", "work", "migrate")]


@pytest.mark.parametrize("name", MILL_COMMANDS)
def test_json_is_one_document_and_all_that_is_on_stdout(
    name: str, database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["--app", APP, "--database-url", database_url, "migrate", "--tables", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["version"]
    mill.move_to(database_url)
    with mill.store.sync_engine.begin() as connection:
        connection.execute(mill["jobs"].table.insert(), [{"id": 1, "state": "dead"}])
    mill.store.sync_engine.dispose()
    sure = ["--yes"] if name in ("requeue", "cancel", "prune", "rescue") else []

    code = run(["--app", APP, "--database-url", database_url, *name.split(), *CALLS[name], *sure, "--json"])

    shown = capsys.readouterr()
    assert code in (0, 5), shown.err
    assert shown.out.count("\n") == 1
    assert isinstance(json.loads(shown.out), dict)


LONG = {"work": 0, "systems intake work": 0, "systems entities work": 0, "systems companies work": 0,
        "systems knowledge work": 0} | dict.fromkeys(
    ["drain", "watch", "reconcile", "stats", "requeue", "prune", "rescue", "migrate", "adopt", "doctor", "demo",
     "outbox list", "systems intake ingest", "systems intake migrate", "systems entities link",
     "systems companies resolve", "systems companies process", "systems companies mappings import",
     "systems knowledge add"], 130,
)  # fmt: skip
"""What may take long. A worker that is told to stop has done what it was asked to."""


@pytest.mark.parametrize(("name", "code"), LONG.items())
def test_ctrl_c(name: str, code: int, place: Path) -> None:
    """While it waits for a database that takes the connection and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        url = f"postgresql://somebody@127.0.0.1:{silent.getsockname()[1]}/none"
        before = [] if name.startswith(("systems", "demo")) else ["--app", APP]
        once = [option for option in CALLS[name] if option != "--once"]
        process = Python(
            "-c", WITH_CTRL_C, *before, *name.split(), "--database-url", url, *once,
            stdout=PIPE, stderr=PIPE, cwd=place, env=os.environ | {"PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        try:
            with silent.accept()[0]:
                process.send_signal(signal.SIGINT)
                out, err = process.communicate(timeout=60)
        finally:
            process.kill()

    assert process.returncode == code, err
    assert b"Traceback" not in err, err
    assert out == b""


# A job in the background is started with Ctrl-C ignored.
WITH_CTRL_C = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from rowmill.cli.main import main
main()
"""
