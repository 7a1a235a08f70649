"""Processes that are forked from a warm one behave as those of a new interpreter."""

import os
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.support.python import PIPE, Python, run_python


def test_a_module_runs_with_its_arguments_and_folder_and_environment(tmp_path: Path) -> None:
    (tmp_path / "said.py").write_text("import os, sys\nprint(__name__, sys.argv[1:], os.getcwd(), dict(os.environ))\n")
    done = run_python("-m", "said", "a", "b", cwd=tmp_path, env={"ONLY": "this"})
    assert done.stdout.decode() == f"__main__ ['a', 'b'] {tmp_path} {{'ONLY': 'this'}}\n"
    assert (done.returncode, done.stderr) == (0, b"")


def test_code_reads_what_it_is_given_and_says_how_it_ended() -> None:
    code = "import sys; text = sys.stdin.read(); print(text * 2); print(text, file=sys.stderr); sys.exit(7)"
    done = run_python("-c", code, given=b"ab")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"abab\n", b"ab\n")


def test_an_error_is_told_and_is_a_failure() -> None:
    done = run_python("-c", "1 / 0")
    assert done.returncode == 1
    assert b"ZeroDivisionError" in done.stderr


def test_one_that_is_killed_or_never_ends() -> None:
    process = Python("-c", "import time; print('up', flush=True); time.sleep(600)", stdout=PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    os.kill(process.pid, signal.SIGSTOP)
    assert process.poll() is None
    process.kill()
    assert process.wait(60) == -signal.SIGKILL
    assert not psutil.pid_exists(process.pid)
    assert process.communicate() == (b"", b"")


def test_what_a_process_changes_is_its_own() -> None:
    assert run_python("-c", "import rowmill; rowmill.Mill = None").returncode == 0
    assert run_python("-c", "import rowmill; assert rowmill.Mill is not None").returncode == 0


def test_rowmill_is_there_already() -> None:
    assert run_python("-c", "import sys; assert 'rowmill.cli.main' in sys.modules").returncode == 0
