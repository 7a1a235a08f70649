"""`rowmill systems intake …`, as a person calls it."""

import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from rowmill_systems.intake.commands import ingesting
from rowmill_systems.parts import local_files
from systems.tests.intake.harness import FakeAnalyzer, intake_on
from systems.tests.shell import Shell, address
from tests.support.waiting import until

pytestmark = pytest.mark.empty_database

FILES = "/organizations/1/projects/1/files"


def shell_on(url: str, folder: Path) -> Shell:
    given = {
        "INTAKE_DATABASE_URL": url,
        "INTAKE_STORAGE": str(folder / "files"),
        "INTAKE_WORKER_POLL_BASE_SECONDS": "0.05",
        "INTAKE_WORKER_POLL_MAX_SECONDS": "0.2",
    }
    return Shell("intake", folder, given)


@pytest.fixture
def shell(database_url: str, tmp_path: Path) -> Iterator[Shell]:
    found = shell_on(database_url, tmp_path)
    if database_url.startswith("postgres"):
        found.run("migrate")
    yield found
    found.end()


def papers(folder: Path) -> Path:
    place = folder / "papers"
    (place / "deeper").mkdir(parents=True)
    (place / "a.txt").write_text("Invoice number: 4711\nInvoice date: 2026-03-31\n")
    (place / "deeper" / "b.csv").write_text("Invoice number;4712\n")
    (place / "empty.txt").write_bytes(b"")
    (place / "broken.pdf").write_bytes(b"%PDF-1.7 and no more")
    (place / ".hidden").write_text("not this one")
    return place


def test_a_folder_is_put_in_read_and_told_about(shell: Shell, tmp_path: Path) -> None:
    told: dict[str, Any] = json.loads(shell.run("ingest", str(papers(tmp_path)), "--json", code=5))
    states = {Path(one["path"]).name: one["processing_status"] for one in told["files"]}
    assert states == {"a.txt": "completed", "b.csv": "completed", "broken.pdf": "failed"}
    assert [(Path(one["path"]).name, one["refused"]) for one in told["refused"]] == [("empty.txt", "empty")]
    assert {one["suggestions"] for one in told["files"] if one["processing_status"] == "completed"} != {0}
    shown = shell.run("ingest", str(tmp_path / "papers" / "a.txt"))
    assert "completed" in shown


def test_what_is_no_file_is_refused_and_said(sqlite_url: str, tmp_path: Path) -> None:
    """A pipe that nobody writes to, and a name that is no text."""
    shell = shell_on(sqlite_url, tmp_path)
    place = tmp_path / "odd"
    place.mkdir()
    os.mkfifo(place / "pipe")
    (place / "link").symlink_to("nowhere")
    Path(os.fsdecode(os.fsencode(place) + b"/\xff.txt")).write_text("Invoice number: 4711")
    told = json.loads(shell.run("ingest", str(place), "--no-work", "--json", code=5))
    assert [Path(one["path"]).name for one in told["files"]] == ["\N{REPLACEMENT CHARACTER}.txt"]
    assert {Path(one["path"]).name for one in told["refused"]} == {"pipe", "link"}


def test_folders_that_can_t_be_looked_into_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    scandir = os.scandir

    def refusing(path: Any) -> Any:
        if Path(path) == closed:
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    refused: dict[Path, str] = {}
    assert list(local_files.all_files([tmp_path], refused)) == []
    assert refused == {closed: "unreadable: Permission denied"}


async def test_tens_of_thousands_of_files_can_be_told_about(
    database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """More than a statement may have parameters."""
    async with intake_on(database_url, tmp_path, FakeAnalyzer()) as harness:
        number = await harness.put("total: 1")
        batch = ingesting.IngestedFiles(1, 1, None, {number + more: tmp_path for more in range(70_000)})
        assert await ingesting.report(harness.intake, batch, json=True, read=False) == 0
    assert len(json.loads(capsys.readouterr().out)["files"]) == 1


def test_files_can_be_left_to_others(shell: Shell, tmp_path: Path) -> None:
    """F10: a worker takes them up, and SIGTERM ends it cleanly."""
    told = json.loads(shell.run("ingest", str(papers(tmp_path) / "a.txt"), "--no-work", "--json"))
    assert [one["processing_status"] for one in told["files"]] == ["queued"]
    worker = shell.start("work")
    server = shell.start("serve", "--port", "0")
    url = address(server)
    with httpx2.Client(base_url=url, trust_env=False) as client:
        until(lambda: client.get(FILES).json()["counts"]["completed"] == 1)
        assert client.get("/health").json() == {"status": "ok"}
    for process in (worker, server):
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said


def test_one_process_can_serve_and_work(shell: Shell, tmp_path: Path) -> None:
    server = shell.start("serve", "--port", "0", "--with-worker")
    with httpx2.Client(base_url=address(server), trust_env=False) as client:
        sent = client.post(FILES, files={"file": ("a.txt", b"Invoice number: 4711\n")})
        assert sent.status_code == 201
        until(lambda: client.get(sent.headers["location"]).json()["processing_status"] == "completed")
        assert "4711" in client.get("/review/1/1/files/1").text
    server.send_signal(signal.SIGTERM)
    _, said = server.communicate(timeout=60)
    assert server.returncode == 0, said


HALF_AN_UPLOAD = (
    f"POST {FILES} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: multipart/form-data; boundary=B\r\n"
    'Content-Length: 1000\r\n\r\n--B\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nhalf'
)


@pytest.mark.parametrize("more", [[], ["--with-worker"]])
def test_a_client_that_stops_in_the_middle_keeps_no_server_from_ending(
    sqlite_url: str, tmp_path: Path, more: list[str]
) -> None:
    """It has the grace period; and that is what ROWMILL_GRACE says."""
    shell = shell_on(sqlite_url, tmp_path)
    shell.given["ROWMILL_GRACE"] = "1"
    server = shell.start("serve", "--port", "0", *more)
    url = httpx2.URL(address(server))
    try:
        with socket.create_connection((url.host, url.port or 0)) as client:
            client.sendall(HALF_AN_UPLOAD.encode())
            time.sleep(0.3)  # for it to arrive
            server.send_signal(signal.SIGTERM)
            _, said = server.communicate(timeout=20)
        assert server.returncode == 0, said
    finally:
        server.kill()


def test_told_twice_it_leaves_at_once(sqlite_url: str, tmp_path: Path) -> None:
    shell = shell_on(sqlite_url, tmp_path)
    server = shell.start("serve", "--port", "0", "--with-worker")
    url = httpx2.URL(address(server))
    try:
        with socket.create_connection((url.host, url.port or 0)) as client:
            client.sendall(HALF_AN_UPLOAD.encode())
            time.sleep(0.3)
            server.send_signal(signal.SIGTERM)
            time.sleep(0.5)
            server.send_signal(signal.SIGTERM)
            server.communicate(timeout=5)
        assert server.returncode == 128 + signal.SIGTERM
    finally:
        server.kill()


def test_a_database_without_the_tables_says_what_to_run(pg_url: str, tmp_path: Path) -> None:
    shell = shell_on(pg_url, tmp_path)
    for command in (("work",), ("serve",), ("ingest", __file__)):
        assert "rowmill systems intake migrate" in shell.run(*command, code=4)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("INTAKE_WORKER_POLL_BASE_SECONDS", "soon", "INTAKE_WORKER_POLL_BASE_SECONDS"),
        ("INTAKE_OCR", "magic", "INTAKE_OCR"),
        ("INTAKE_STORAGE", "ftp://nowhere", "s3://"),
        ("INTAKE_CATALOGUE", "/nowhere.toml", "/nowhere.toml"),
    ],
)
def test_wrong_settings_are_said_with_their_names(
    sqlite_url: str, tmp_path: Path, name: str, value: str, said: str
) -> None:
    shell = shell_on(sqlite_url, tmp_path)
    shell.given[name] = value
    assert said in shell.run("work", code=2)
