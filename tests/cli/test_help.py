"""Help on a terminal and off it, and text in brackets, which Rich would take for markup."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rowmill.cli import output
from rowmill.cli.main import run

GROUPS = ["Run", "Look", "Change", "Set up and check", "More"]


def on_a_terminal(*command: str, folder: Path) -> str:
    """What a command writes to a terminal, without its colours."""
    ours, theirs = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ROWMILL_")}
    with subprocess.Popen(
        [sys.executable, "-m", "rowmill", *command], stdout=theirs, stderr=theirs, cwd=folder,
        env=environment | {"COLUMNS": "100", "TERM": "xterm"},
    ):  # fmt: skip
        os.close(theirs)
        text = b""
        try:
            while more := os.read(ours, 4096):
                text += more
        except OSError:
            pass  # the other side is closed
    os.close(ours)
    return re.sub(r"\x1b\[[0-9;]*m", "", text.decode())


def test_a_terminal_shows_brackets_groups_and_flags_without_a_type(tmp_path: Path) -> None:
    text = on_a_terminal("--help", folder=tmp_path)

    assert "[tool.rowmill]" in text
    assert "<bool>" not in text
    assert re.findall(r"╭─ ([\w ]+) ─", text) == ["Options", *GROUPS]
    for command in ("stats", "schedule"):
        text = on_a_terminal(command, "--help", folder=tmp_path)
        assert "<bool>" not in text
    assert "which mill? Name it" in (text := on_a_terminal("stats", folder=tmp_path))
    assert "[tool.rowmill]" in text


def test_commands_are_grouped_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    text = capsys.readouterr().out

    assert re.findall(r"^(\w.*):$", text, re.MULTILINE) == ["Options", *GROUPS]
    assert re.search(r"^Change:\n  requeue +Make rows ready", text, re.MULTILINE)


def test_tables_on_a_terminal_keep_brackets(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    output.table(["[head]", "b"], [["[cell]", "[/red]"]], title="queue [tool.rowmill]")

    text = capsys.readouterr().out
    for kept in ("[head]", "[cell]", "[/red]", "[tool.rowmill]"):
        assert kept in text
