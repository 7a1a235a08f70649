"""What is printed: to a pipe that nobody reads, to a narrow terminal, in an encoding with few letters."""

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tests.cli.conftest import APP, Shell
from tests.cli.example import files

ROOT = Path(__file__).parents[2]


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    """What is printed does not depend on the database."""
    return sqlite_url


def command(shell: Shell, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "rowmill", "--app", APP, "--database-url", shell.url, *arguments]


def environment(**more: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    return inherited | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])} | more


def with_a_reader_that_leaves(shell: Shell, *arguments: str) -> tuple[int, str]:
    """Run a command whose output nobody reads; answers its code, and what it complained about."""
    theirs, ours = os.pipe()
    os.close(theirs)
    with subprocess.Popen(
        command(shell, *arguments), stdout=ours, stderr=subprocess.PIPE, text=True, env=environment()
    ) as process:
        os.close(ours)
        assert process.stderr is not None
        said = process.stderr.read()
    return process.returncode, said


@pytest.mark.parametrize("rows", [1, 2000], ids=["less than a buffer", "more than a pipe"])
@pytest.mark.parametrize("options", [[], ["--json"]], ids=["text", "json"])
def test_a_reader_that_leaves_is_no_failure(shell: Shell, rows: int, options: list[str]) -> None:
    shell.put(files, *({"id": n, "status": "queued", "error": "x" * 60} for n in range(rows)))

    assert with_a_reader_that_leaves(shell, "list", "files", "--limit", "5000", *options) == (0, "")


def test_the_code_of_a_command_is_that_of_its_work_whoever_reads_it(shell: Shell) -> None:
    shell.put(files, {"id": 1, "status": "strange"})

    assert with_a_reader_that_leaves(shell, "doctor", "files") == (5, "")
    assert with_a_reader_that_leaves(shell, "adopt", "files", "--sql")[0] == 0


END = b"\0end of the output"


def on_a_terminal(shell: Shell, *arguments: str, columns: int = 100, **more: str) -> str:
    """What a command writes to a terminal of that width, as it is."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 25, columns, 0, 0))
    with subprocess.Popen(
        command(shell, *arguments), stdin=theirs, stdout=theirs, stderr=theirs, env=environment(TERM="xterm", **more)
    ) as process:
        text, ended = b"", False
        while END not in text:  # the kernel hands lines over when it has time: ours comes behind the last of them
            if select.select([ours], [], [], 0.05)[0]:
                text += os.read(ours, 4096)
            if not ended and process.poll() is not None:
                ended = True
                os.write(theirs, END)
    os.close(theirs)
    os.close(ours)
    return text.removesuffix(END).decode().replace("\r\n", "\n")


def test_a_narrow_terminal_breaks_what_does_not_fit_and_cuts_nothing_off(shell: Shell) -> None:
    shell.put(files, {"id": 123456789, "status": "queued", "error": "no_spaces_in_this_error_text_at_all"})

    text = on_a_terminal(shell, "list", "files", columns=40, NO_COLOR="1")

    assert "…" not in text
    below = text[text.rindex("─") + 1 :].splitlines()
    first, last = "".join(line[:6].strip() for line in below), "".join(line[-6:].strip() for line in below)
    assert (first, last) == ("123456789", "no_spaces_in_this_error_text_at_all")


def test_colours_are_left_out_where_nobody_wants_them(shell: Shell) -> None:
    shell.put(files, {"id": 1, "status": "queued"})

    assert "\x1b[" in on_a_terminal(shell, "list", "files")
    assert "\x1b[3" not in on_a_terminal(shell, "list", "files", NO_COLOR="1")


def test_a_terminal_with_few_letters_gets_question_marks_and_programs_get_escapes(shell: Shell) -> None:
    shell.put(files, {"id": 1, "status": "queued", "path": "Zürich ≥ 漢字", "error": "größer"})

    def said(*arguments: str) -> str:
        done = subprocess.run(
            command(shell, *arguments), capture_output=True, env=environment(PYTHONIOENCODING="ascii"), check=False
        )
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout.decode("ascii")

    assert "gr??er" in said("list", "files")
    assert json.loads(said("show", "files", "1", "--json"))["values"]["path"] == "Zürich ≥ 漢字"


def test_names_in_brackets_stay_in_messages_on_a_terminal(shell: Shell) -> None:
    for arguments, says in (
        (["list", "[files]"], "this mill has no queue [files]. It has: files"),
        (["list", "files", "--columns", "[red]"], "has no column '[red]'"),
        (["list", "files", "--[bold]"], "--[bold]"),
        (["requeue", "files", "--since", "[/]"], "'[/]' is not a time"),
    ):
        assert says in " ".join(on_a_terminal(shell, *arguments, columns=200).split())


def test_long_values_are_cut_for_people_and_whole_for_programs(shell: Shell) -> None:
    long = "漢" * 5000
    shell.put(files, {"id": 1, "status": "queued", "path": long})

    assert "(5,000 characters)" in shell.ok("show", "files", "1").out
    assert long in shell.ok("show", "files", "1", "--full").out
    assert shell.ok("show", "files", "1", "--json").json["values"]["path"] == long
