"""The commands of knowledge, called in this process."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from rowmill.cli.main import run
from rowmill.testing import QUICK
from rowmill_systems.knowledge import knowledge as module
from rowmill_systems.knowledge.knowledge import Knowledge
from rowmill_systems.knowledge.settings import KnowledgeSettings
from systems.tests.knowledge.harness import PAPER, HashEmbedder, PlainReaders

WHALES = "the biggest mammal of the sea"


class PlainKnowledge(Knowledge):
    """Reads plain text, and has a model of the tests."""

    def __init__(self, settings: KnowledgeSettings) -> None:
        super().__init__(settings, embedder=HashEmbedder())
        self.mill.settings, self.readers = QUICK, PlainReaders()


@pytest.fixture(autouse=True)
def _environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, database_url: str
) -> None:
    monkeypatch.setattr(module, "Knowledge", PlainKnowledge)
    given = {
        "DATABASE_URL": database_url,
        "STORAGE": str(tmp_path / "files"),
        "VECTORS": str(tmp_path / "vectors.db"),
        "PASSWORD_COST": "1",
        "GRACE_SECONDS": "0",
    }
    for name, value in given.items():
        monkeypatch.setenv(f"KNOWLEDGE_{name}", value)
    assert run(["systems", "knowledge", "migrate"]) == 0  # the stores are new, the tables are there already
    capsys.readouterr()


@pytest.fixture
def papers(tmp_path: Path) -> Path:
    folder = tmp_path / "papers"
    folder.mkdir()
    (folder / "sea.md").write_bytes(PAPER)
    (folder / "empty.txt").write_bytes(b"")
    (folder / ".hidden").write_bytes(PAPER)
    return folder


def called(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Any:
    """Call a command with --json, and return what it prints."""
    assert run(["systems", "knowledge", *words, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert run(["systems", "knowledge", *words]) == code
    shown = capsys.readouterr()
    return shown.out + shown.err


def test_files_are_added_found_and_deleted(capsys: pytest.CaptureFixture[str], papers: Path) -> None:
    """K11."""
    added = called(capsys, "add", str(papers), "--kb", "Sea", code=5)
    [document] = added["documents"]
    assert (document["status"], Path(document["path"]).name) == ("ready", "sea.md")
    assert {Path(each["path"]).name: each["refused"] for each in added["refused"]} == {"empty.txt": "empty"}
    found = called(capsys, "search", WHALES, "--kb", "Sea")["hits"]
    assert [hit["document_id"] for hit in found] == [document["id"]]
    assert "sea.md, page 1" in said(capsys, "search", WHALES)
    assert called(capsys, "stats")["knowledge_bases"][0]["documents"] == {"ready": 1}
    assert called(capsys, "fsck")["clean"]
    assert "there is no terminal to ask on" in said(capsys, "delete", document["id"], code=2)
    called(capsys, "delete", document["id"], "--yes")
    assert called(capsys, "documents") == {"documents": []}
    assert called(capsys, "search", WHALES)["hits"] == []


def test_files_can_be_left_to_workers_elsewhere(capsys: pytest.CaptureFixture[str], papers: Path) -> None:
    [document] = called(capsys, "add", str(papers / "sea.md"), "--no-work")["documents"]
    assert document["status"] == "pending"
    listed = called(capsys, "documents", "--kb", "Documents", "--status", "pending")["documents"]
    assert [each["id"] for each in listed] == [document["id"]]
    assert called(capsys, "reprocess", document["id"]) == {"reprocessing": 1}
    assert called(capsys, "reprocess", "--failed") == {"reprocessing": 0}
    assert called(capsys, "stats")["outbox"]["queue_depth"] == 2


def test_what_is_unknown_is_named_with_what_there_is(capsys: pytest.CaptureFixture[str], papers: Path) -> None:
    assert "there is no knowledge base yet" in said(capsys, "search", "whales", code=2)
    kb_id = called(capsys, "kb", "create", "Sea")["id"]
    assert "There are: Sea" in said(capsys, "search", "whales", "--kb", "Land", code=2)
    assert said(capsys, "search", "whales", "--kb", kb_id) == "nothing was found\n"
    called(capsys, "kb", "create", "Sea")
    assert "2 knowledge bases are called Sea. Give an id" in said(capsys, "search", "whales", "--kb", "Sea", code=2)
    assert "is no id of a document" in said(capsys, "delete", "7", code=2)
    assert "there is no document" in said(capsys, "delete", kb_id, "--yes", code=2)
    assert "There are: pending, processing, ready, failed" in said(capsys, "documents", "--status", "x", code=2)
    assert "say which" in said(capsys, "reprocess", code=2)
    assert "KNOWLEDGE_ANSWER_MODEL" in said(capsys, "ask", "why?", code=2)


def test_a_knowledge_base_is_deleted_with_its_documents(capsys: pytest.CaptureFixture[str], papers: Path) -> None:
    called(capsys, "add", str(papers / "sea.md"), "--kb", "Sea")
    deleted = called(capsys, "kb", "delete", "Sea", "--yes")
    assert deleted["documents"] == 1
    assert called(capsys, "kb", "list") == {"knowledge_bases": []}


def test_damage_is_found_mended_and_orphans_are_removed(
    capsys: pytest.CaptureFixture[str], papers: Path, tmp_path: Path
) -> None:
    """K5 and K6, as an operator sees them."""
    called(capsys, "add", str(papers / "sea.md"), "--kb", "Sea")
    files = tmp_path / "files"
    [stored] = [each for each in files.rglob("*") if each.is_file() and ".incoming" not in each.parts]
    orphan = stored.parent.parent / "4e3a0f5c-2f0b-4f57-9d0c-5f7b5a4e0a11" / stored.name
    orphan.parent.mkdir()
    orphan.write_bytes(stored.read_bytes())
    found = called(capsys, "fsck", code=5)
    assert {name: kind["count"] for name, kind in found["kinds"].items()} == {"object_without_document": 1}
    assert not found["executed"]
    shown = said(capsys, "fsck", "--execute", code=5)
    assert "Asked for, it is removed." in shown
    assert orphan.exists()
    assert "no terminal to ask on" in said(capsys, "fsck", "--remove-orphans", code=2)
    assert orphan.exists()
    removed = called(capsys, "fsck", "--remove-orphans", "--yes")
    assert (removed["found"], removed["removed"]) == (1, 1)
    assert not orphan.exists()
    assert stored.exists()
    assert "they agree" in said(capsys, "fsck")


def test_a_store_that_is_away_is_no_empty_one(capsys: pytest.CaptureFixture[str], papers: Path, tmp_path: Path) -> None:
    called(capsys, "add", str(papers / "sea.md"), "--kb", "Sea")
    (tmp_path / "files").rename(tmp_path / "unmounted")
    found = called(capsys, "fsck", "--execute", code=3)
    assert (found["findings"], [one["store"] for one in found["unreachable"]]) == (0, ["objects"])


@pytest.mark.parametrize("words", [["fsck"], ["search", "whales"], ["work"], ["serve"], ["add", "."]], ids=" ".join)
def test_settings_that_describe_no_store_are_told_at_the_start(
    capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    """A worker that began all the same would fail with each event, until all of them are dead."""
    assert "none of the known stores" in said(capsys, *words, "--vectors", "gopher://x", code=2)
    assert "neither a folder nor S3" in said(capsys, *words, "--storage", "gopher://x", code=2)


def test_a_worker_without_its_model_does_not_begin(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "Knowledge", Knowledge)
    monkeypatch.setenv("KNOWLEDGE_EMBEDDER", "endpoint")
    assert "Set KNOWLEDGE_ENDPOINT_URL" in said(capsys, "work", code=2)
    assert "Set KNOWLEDGE_ENDPOINT_URL" in said(capsys, "serve", "--with-worker", code=2)


def test_users_are_added_changed_and_deleted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def typed(*words: str, code: int = 0) -> str:
        monkeypatch.setattr("sys.stdin", io.StringIO("correct horse battery\n"))
        return said(capsys, "users", *words, code=code)

    assert typed("add", "Ann@example.org", "--superuser", "--password-stdin") == "ann@example.org: administrator\n"
    assert typed("add", "bob@example.org", "--password-stdin") == "bob@example.org: viewer\n"
    assert "there is a user with this email" in typed("add", "ann@example.org", "--password-stdin", code=2)
    assert "Give it with --password-stdin" in typed("add", "eve@example.org", code=2)
    assert "There are: viewer, editor, administrator" in typed("add", "eve@example.org", "--role", "king", code=2)
    assert typed("change", "bob@example.org", "--role", "editor") == "bob@example.org: editor, active\n"
    assert "say what to change" in typed("change", "bob@example.org", code=2)
    assert "only administrator" in typed("delete", "ann@example.org", "--yes", code=2)
    assert "new password" in typed("password", "bob@example.org", "--password-stdin")
    assert called(capsys, "users", "token", "bob@example.org", "--days", "1")["token"].startswith("knowledge_")
    assert [each["email"] for each in called(capsys, "users", "list")["users"]] == [
        "ann@example.org",
        "bob@example.org",
    ]
    assert typed("delete", "bob@example.org", "--yes") == "deleted bob@example.org\n"
