"""The tests' own PostgreSQL leaves nothing behind, however its owner ends."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import psycopg
import pytest

from tests.support.postgres import REPOSITORY, PostgresUnavailable, TemporaryPostgres
from tests.support.postgres_programs import (
    as_account,
    copy_installation,
    find_programs,
    unprivileged_account,
    usable_programs,
)

OWNER = """
import json, time
from tests.support.postgres import TemporaryPostgres

server = TemporaryPostgres().start()
print(json.dumps({"pid": server.pid, "folder": str(server.folder)}), flush=True)
time.sleep(600)
"""


def eventually(condition: Callable[[], bool], seconds: float = 30) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_killing_the_owner_ends_the_server_and_removes_its_folder() -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    with owner:
        assert owner.stdout is not None
        facts = json.loads(owner.stdout.readline())
        pid, folder = facts["pid"], Path(facts["folder"])
        assert psutil.Process(pid).name() == "postgres"
        assert folder.is_dir()

        owner.kill()

    assert eventually(lambda: not psutil.pid_exists(pid))
    assert eventually(lambda: not folder.exists())


def test_stop_ends_the_server_and_a_second_stop_is_fine() -> None:
    server = TemporaryPostgres().start()

    server.stop()
    server.stop()

    assert not psutil.pid_exists(server.pid)
    assert not server.folder.exists()


def test_settings_override_the_defaults() -> None:
    with TemporaryPostgres({"work_mem": "7MB"}) as server, psycopg.connect(server.url) as connection:
        shown = [connection.execute(f"SHOW {name}").fetchone() for name in ("work_mem", "fsync")]

    assert shown == [("7MB",), ("off",)]


def test_a_server_that_cannot_start_says_why() -> None:
    with pytest.raises(PostgresUnavailable, match="no_such_setting"):
        TemporaryPostgres({"no_such_setting": "1"}).start()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts the server under another account")
def test_programs_that_the_account_cannot_reach_are_copied_to_where_it_can_run_them(tmp_path: Path) -> None:
    account = unprivileged_account()
    tmp_path.chmod(0o700)
    private = copy_installation(find_programs().parent, tmp_path)

    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        programs = usable_programs(private / "bin", account, Path(folder))

        assert programs.is_relative_to(folder)
        subprocess.run([programs / "postgres", "--version"], check=True, cwd=folder, **as_account(account))
