"""stats --watch, in a process of its own: again and again, until Ctrl-C."""

import asyncio
import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rowmill.cli.stats import CLEAR
from tests.cli import example
from tests.cli.conftest import APP, Shell
from tests.support.proxy import proxy_to

ROOT = Path(__file__).parents[2]


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    """What is printed does not depend on the database."""
    return sqlite_url


def command(url: str, *options: str) -> list[str]:
    return [
        sys.executable, "-m", "rowmill", "--app", APP, "--database-url", url, "stats", "files", "--watch", *options,
    ]  # fmt: skip


def test_plain_text_comes_again_until_ctrl_c(shell: Shell) -> None:
    with subprocess.Popen(command(shell.url), stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        lines: list[str] = []
        while lines.count("queue files") < 2:
            line = process.stdout.readline()
            assert line, "it ended by itself"
            lines.append(line.rstrip("\n"))
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()

    assert process.returncode == 130
    assert "UTC, every 2 s until Ctrl-C" in lines[0]
    assert "\x1b" not in "".join(lines) + rest


def test_json_is_one_document_a_line(shell: Shell) -> None:
    with subprocess.Popen(command(shell.url, "--json"), stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        views = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.send_signal(signal.SIGINT)
        process.stdout.read()

    assert process.returncode == 130
    assert views[0]["at"] < views[1]["at"]
    assert [one["queue"] for one in views[1]["queues"]] == ["files"]


def test_a_terminal_is_cleared_before_each_view(shell: Shell) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(command(shell.url), stdout=theirs, cwd=ROOT) as process:
        os.close(theirs)
        text = b""
        while text.count(CLEAR.encode()) < 2:
            text += os.read(ours, 4096)
        process.send_signal(signal.SIGINT)
        try:
            while os.read(ours, 4096):
                pass
        except OSError:
            pass  # the other side is closed
    os.close(ours)

    assert process.returncode == 130
    assert text.startswith(CLEAR.encode())
    assert b"queue files" in text


def test_it_ends_when_nobody_reads_any_more(shell: Shell) -> None:
    with subprocess.Popen(
        command(shell.url), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()

    assert (process.returncode, said) == (0, "")


async def test_a_database_that_goes_away_is_waited_for(pg_url: str) -> None:
    example.mill.move_to(pg_url)
    await example.mill.migrate(tables=True)
    async with proxy_to(pg_url) as (proxy, url):
        process = await asyncio.create_subprocess_exec(
            *command(url, "--json"), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, cwd=ROOT
        )
        assert process.stdout is not None
        assert process.stderr is not None
        assert await process.stdout.readline()
        port, proxy.port = proxy.port, 1
        said = (await process.stderr.readline()).decode()
        proxy.port = port
        while line := await process.stdout.readline():
            if b'"at"' in line:
                break
        process.send_signal(signal.SIGINT)
        await process.communicate()

    assert said.startswith("rowmill: ")
    assert line
    assert process.returncode == 130


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_what_is_wrong_from_the_beginning_ends_it(
    options: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code = subprocess.run(command(f"sqlite:///{tmp_path}/none.db", *options), cwd=ROOT, check=False).returncode

    assert code == 4
    assert "Run: rowmill migrate" in capfd.readouterr().err
