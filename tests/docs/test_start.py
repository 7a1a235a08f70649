"""The guides that begin with nothing: their commands do what they show, on both databases."""

import os
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.docs.transcript import Command, Differs, File, Terminal, alike, plain_environment, steps
from tests.support.nats import free_port

GUIDES = ROOT / "docs" / "guides"
START = (GUIDES / "start.md").read_text()
README = (ROOT / "README.md").read_text()
pytestmark = [
    pytest.mark.timeout(300),  # some thirty processes, one after another
    pytest.mark.empty_database,
]
PAGE_URL = "postgresql+psycopg://app:secret@localhost:5432/app"


def installs(command: str) -> bool:
    """These tests run in an environment that has everything."""
    return command.startswith(("python3 -m venv", ". .venv", "pip install"))


def terminal(folder: Path, database_url: str, more: dict[str, str] | None = None) -> Terminal:
    environment = plain_environment() | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    replace = {PAGE_URL: database_url.replace("postgresql:", "postgresql+psycopg:")}
    return Terminal(folder, environment, replace | (more or {}))


@pytest.mark.slow
def test_what_the_first_guide_says_is_what_happens(tmp_path: Path, pg_url: str) -> None:
    with terminal(tmp_path, pg_url) as typing:
        assert typing.follow(START, installs) > 10


@pytest.mark.slow
@pytest.mark.parametrize("postgres", [False, True])
def test_what_the_readme_says_is_what_happens(tmp_path: Path, pg_url: str, postgres: bool) -> None:
    with terminal(tmp_path, pg_url) as typing:
        if postgres:
            typing.run(Command(f"export DATABASE_URL={PAGE_URL}", ""))
        assert typing.follow(README, installs) > 3


@pytest.mark.slow
@pytest.mark.parametrize("postgres", [False, True])
def test_what_the_guide_to_fastapi_says_is_what_happens(tmp_path: Path, pg_url: str, postgres: bool) -> None:
    port = str(free_port())
    more = {"127.0.0.1:8000": f"127.0.0.1:{port}", "uvicorn main:app": f"uvicorn main:app --port {port}"}
    with terminal(tmp_path, pg_url, more) as typing:
        if postgres:
            url = pg_url.replace("postgresql:", "postgresql+asyncpg:")
            typing.run(Command(f"export DATABASE_URL={url}", ""))
        assert typing.follow((GUIDES / "fastapi.md").read_text(), installs) > 4


@pytest.mark.slow
def test_what_the_guide_to_testing_says_is_what_happens(tmp_path: Path, pg_url: str) -> None:
    with terminal(tmp_path, pg_url) as typing:
        files = [step for step in steps(START) if isinstance(step, File)]
        (tmp_path / "app.py").write_text(next(file.text for file in files if file.name == "app.py"))
        assert typing.follow((GUIDES / "testing.md").read_text(), installs) == 1


def test_a_command_that_says_something_else_is_found(tmp_path: Path, pg_url: str) -> None:
    with terminal(tmp_path, pg_url) as typing:
        typing.run(Command("echo 2 done in 0.1 s", "2 done in 7.3 s\n"))
        with pytest.raises(Differs, match="the page shows:\n3 done"):
            typing.run(Command("echo 2 done", "3 done\n"))
        with pytest.raises(Differs, match="failed with 1"):
            typing.run(Command("false", ""))


def test_files_commands_and_their_output_are_told_apart() -> None:
    page = "```python\n# a.py\nx = 1\n```\n```python\ny = 2\n```\n```console\n$ one\nsays\n$ two\n^C\nend\n```\n"
    assert list(steps(page)) == [
        File("a.py", "# a.py\nx = 1\n"), Command("one", "says\n"), Command("two", ""), Command("^C", "end\n")
    ]  # fmt: skip


def test_times_hosts_and_numbers_of_processes_may_differ() -> None:
    assert alike("1  laptop  301  article  1 s ago  stopped") == alike("12  vm  4  article  59 s ago  stopped")
    assert alike("2026-11-17 18:53:08.550 INFO    [32] stopped") == alike("2027-01-01 00:00:00.000 INFO  [9] stopped")
