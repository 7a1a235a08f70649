"""`rowmill systems entities …`, as a person calls it."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from rowmill.cli.main import run
from systems.tests.entities.commands import shell_on
from systems.tests.shell import Shell, address
from tests.support.waiting import until

pytestmark = pytest.mark.empty_database


@pytest.fixture
def shell(sqlite_url: str, tmp_path: Path) -> Iterator[Shell]:
    found = shell_on(sqlite_url, tmp_path)
    yield found
    found.end()


def test_a_knowledge_base_is_made_and_asked(shell: Shell) -> None:
    told = json.loads(shell.run("kb", "build", "things.jsonl", "more.kb", "--json"))
    assert (told["things"], told["bytes"]) == (6, (shell.folder / "more.kb").stat().st_size)
    found = json.loads(shell.run("kb", "search", "ada lovelace", "--type", "PER", "--kb", "more.kb", "--json"))
    assert found["candidates"][0]["wikidata_id"] == found["link"]["wikidata_id"] == "Q7259"
    assert "would be linked to Ada Lovelace" in shell.run("kb", "search", "Ada Lovelace", "--type", "person")
    assert "another one is too close to the best" in shell.run("kb", "search", "John Smith")
    assert "nothing is called so" in shell.run("kb", "search", "Xyzzy Qwert")
    assert "and 0.75 is needed" in shell.run("kb", "search", "Evil Corp", "--type", "person")


def test_what_is_wrong_in_a_source_is_said_by_line_and_nothing_is_made(shell: Shell) -> None:
    (shell.folder / "bad.jsonl").write_text('{"id": "a", "name": "A"}\nnot json\n')
    said = shell.run("kb", "build", "bad.jsonl", "bad.kb", code=1)
    assert "line 2" in said
    assert not (shell.folder / "bad.kb").exists()
    assert "nowhere.jsonl" in shell.run("kb", "build", "nowhere.jsonl", "bad.kb", code=2)


def test_entities_can_be_left_to_a_worker_and_are_served(database_url: str, tmp_path: Path) -> None:
    shell = shell_on(database_url, tmp_path)
    shell.run("migrate")
    try:
        worker, server = shell.start("work"), shell.start("serve", "--port", "0")
        with httpx2.Client(base_url=address(server), trust_env=False, timeout=30) as client:
            sent = client.post("/entities", json={"name": "Ada Lovelace"})
            place = sent.headers["location"]
            until(lambda: client.get(place).json()["enrichment_status"] == "COMPLETE")
            assert "Q7259" in client.get(f"/browse/{sent.json()['id']}").text
        for process in (worker, server):
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=60)
            assert process.returncode == 0, said
    finally:
        shell.end()


def test_one_process_can_serve_and_work(shell: Shell) -> None:
    server = shell.start("serve", "--port", "0", "--with-worker")
    with httpx2.Client(base_url=address(server), trust_env=False, timeout=30) as client:
        place = client.post("/entities", json={"name": "Zürich"}).headers["location"]
        until(lambda: client.get(place).json()["enrichment_status"] == "COMPLETE")
    server.send_signal(signal.SIGTERM)
    _, said = server.communicate(timeout=60)
    assert server.returncode == 0, said


def test_a_database_without_the_tables_says_what_to_run(pg_url: str, tmp_path: Path) -> None:
    shell = shell_on(pg_url, tmp_path)
    (tmp_path / "in.csv").write_text("name\nx\n")
    for command in (("work",), ("serve",), ("link", "in.csv", "-c", "name")):
        assert "rowmill systems entities migrate" in shell.run(*command, code=4)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("ENTITIES_LINK_THRESHOLD", "2", "ENTITIES_LINK_THRESHOLD"),
        ("ENTITIES_RECONCILIATION", "{", "ENTITIES_RECONCILIATION"),
        ("ENTITIES_SOURCES", ",", "name at least one source"),
        ("ENTITIES_KNOWLEDGE_BASE", "/nowhere.kb", "/nowhere.kb"),
    ],
)
def test_wrong_settings_are_said_with_their_names(
    shell: Shell, name: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for key, given in {**shell.given, name: value}.items():
        monkeypatch.setenv(key, given)
    assert run(["systems", "entities", "work"]) == 2
    assert said in capsys.readouterr().err
