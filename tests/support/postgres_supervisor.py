"""The process that owns one temporary PostgreSQL: folder, server and their end.

It is the server's parent and reads a pipe whose other end only the test process holds. The pipe closes when
that process stops us, crashes or is killed with SIGKILL: all of them end the server and remove its folder,
at whatever moment they come.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from tests.support.postgres_programs import (
    Account,
    as_account,
    find_programs,
    unprivileged_account,
    usable_programs,
)

START_SECONDS = 60
STOP_SECONDS = 20
SOCKET_FOLDER_LIMIT = 80  # the kernel allows 107 bytes for a socket's whole path


def main(settings: Mapping[str, str], root: str | None, standby_of: str | None) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    account = unprivileged_account()
    folder = Path(tempfile.mkdtemp(prefix="rowmill-pg-", dir=root or _temporary_root()))
    server: subprocess.Popen[bytes] | None = None
    try:
        if account:
            os.chown(folder, account.uid, account.gid)
        programs = usable_programs(find_programs(), account, folder)
        if standby_of is None:
            _create(programs, account, folder)
        else:
            _copy(programs, account, folder, standby_of)
        server, port = _start(programs, account, folder, settings)
        print(json.dumps({"pid": server.pid, "port": port, "folder": str(folder)}), flush=True)
        for order in sys.stdin:  # its end is ours
            server = _obey(order.strip(), server, programs, account, folder, {**settings, "port": str(port)})
            print(json.dumps({"pid": server.pid}), flush=True)
    finally:
        if server is not None:
            _end(server)
        shutil.rmtree(folder, ignore_errors=True)


def _temporary_root() -> str:
    """Return the usual temporary folder, unless the server's account can't enter it or its name is too long."""
    usual = Path(tempfile.gettempdir()).resolve()
    open_to_all = all(part.stat().st_mode & 0o001 for part in (usual, *usual.parents))
    return str(usual) if open_to_all and len(str(usual)) < SOCKET_FOLDER_LIMIT else "/tmp"


def _create(programs: Path, account: Account | None, folder: Path) -> None:
    command = [str(programs / "initdb"), "--pgdata", str(folder / "data"), "--username", "tester"]
    command += ["--auth", "trust", "--encoding", "UTF8", "--no-locale", "--no-sync"]
    _run(command, account, folder)


def _copy(programs: Path, account: Account | None, folder: Path, primary: str) -> None:
    """Create a standby from a base backup of the primary."""
    command = [str(programs / "pg_basebackup"), "--pgdata", str(folder / "data"), "--dbname", primary]
    command += ["--write-recovery-conf", "--checkpoint", "fast", "--no-sync"]
    _run(command, account, folder)


def _run(command: list[str], account: Account | None, folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, **as_account(account))
    if done.returncode:
        sys.exit(f"{Path(command[0]).name} failed:\n{done.stderr}{done.stdout}")


def _start(
    programs: Path, account: Account | None, folder: Path, settings: Mapping[str, str]
) -> tuple[subprocess.Popen[bytes], int]:
    # A free port may be taken by another program before the server binds it.
    for _ in range(3):
        port = _free_port()
        server = _launch(programs, account, folder, {**settings, "port": str(port)})
        if _ready(server, folder / "data" / "postmaster.pid"):
            return server, port
        _end(server)
    sys.exit(f"PostgreSQL did not start:\n{(folder / 'server.log').read_text()[-4000:]}")


def _obey(
    order: str,
    server: subprocess.Popen[bytes],
    programs: Path,
    account: Account | None,
    folder: Path,
    settings: Mapping[str, str],
) -> subprocess.Popen[bytes]:
    """Handle an order: "down" cuts all connections and stops the server; "up" starts it again on the same data and
    port."""
    if order == "down":
        _end(server)
        return server
    server = _launch(programs, account, folder, settings)
    if not _ready(server, folder / "data" / "postmaster.pid"):
        sys.exit(f"PostgreSQL did not start again:\n{(folder / 'server.log').read_text()[-4000:]}")
    return server


def _launch(
    programs: Path, account: Account | None, folder: Path, settings: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    fixed = {"listen_addresses": "127.0.0.1", "unix_socket_directories": str(folder)}
    options = [f"--{name}={value}" for name, value in {**settings, **fixed}.items()]
    command = [str(programs / "postgres"), "-D", str(folder / "data"), *options]
    with (folder / "server.log").open("ab") as log:
        server: subprocess.Popen[bytes] = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **as_account(account)
        )
    return server


def _ready(server: subprocess.Popen[bytes], pid_file: Path) -> bool:
    deadline = time.monotonic() + START_SECONDS
    while server.poll() is None and time.monotonic() < deadline:
        # The eighth line is the server's own word on its state.
        lines = pid_file.read_text().splitlines() if pid_file.exists() else []
        if len(lines) >= 8 and lines[7].strip() in ("ready", "standby"):
            return True
        time.sleep(0.02)
    return False


def _end(server: subprocess.Popen[bytes]) -> None:
    server.send_signal(signal.SIGQUIT)  # "immediate": no checkpoint for data that is about to be removed
    try:
        server.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
