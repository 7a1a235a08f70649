"""The commands of articles, called in this process."""

import json
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from rowmill.cli.main import run
from rowmill_systems.articles.models import ClassificationRequest, FeedSource
from systems.tests.articles.shelf import NOW, connected, put_article, put_request, put_source

LISTED = '<opml><body><outline text="A" xmlUrl="https://a.example/f"/><outline text="B" xmlUrl="https://b.example/f"/></body></opml>'


def called(url: str, capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Any:
    """Call a command with --json, and return what it prints."""
    assert run(["systems", "articles", *words, "--database-url", url, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def said(url: str, capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert run(["systems", "articles", *words, "--database-url", url]) == code
    shown = capsys.readouterr()
    return shown.out + shown.err


def test_feeds_are_added_by_address_and_by_list(
    database_url: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "feeds.opml"
    file.write_text(LISTED)
    given = ["add", "b.example/f", str(file), "--topics", "a, b", "--no-discover"]
    found = called(database_url, capsys, *given)
    assert [(each["url"], each["created"]) for each in found["added"]] == [
        ("https://b.example/f", True), ("https://a.example/f", True), ("https://b.example/f", False),
    ]  # fmt: skip
    with connected(database_url) as connection:
        assert list(connection.scalars(sa.select(FeedSource.granular_topics))) == [["a", "b"]] * 2
    found = called(database_url, capsys, "add", "https://c.example/f", "ftp://x", "--no-discover", code=5)
    assert [each["created"] for each in found["added"]] == [True]
    assert [each["code"] for each in found["refused"]] == ["bad_address"]
    assert "was there" in said(database_url, capsys, "add", "https://c.example/f", "--no-discover")


@pytest.mark.parametrize(
    ("content", "words"), [("no list", "it can't be read as XML"), (None, "No such file"), ("<opml/>", "")]
)
def test_a_list_that_is_none(
    sqlite_url: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, content: str | None, words: str
) -> None:
    file = tmp_path / "feeds.opml"
    if content is not None:
        file.write_text(content)
    assert words in said(sqlite_url, capsys, "add", str(file), code=2 if words else 0)


def test_an_address_inside_is_refused(sqlite_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = called(sqlite_url, capsys, "add", "http://127.0.0.1:1/feed", code=5)
    assert found["refused"][0]["code"] == "address_refused"


def test_too_many_topics(sqlite_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    topics = ",".join(f"t{n}" for n in range(30))
    assert "at most 20 topics" in said(sqlite_url, capsys, "add", "x.example", "--topics", topics, code=2)


def test_the_health_of_feeds(database_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with connected(database_url) as connection:
        put_source(connection, "Fine", last_success_at=NOW, last_new_at=NOW)
    assert [each["health"] for each in called(database_url, capsys, "feeds")["feeds"]] == ["ok"]
    with connected(database_url) as connection:
        put_source(connection, "Bad", failures=2, last_code="dns")
    [bad] = called(database_url, capsys, "feeds", "--failing", code=5)["feeds"]
    assert (bad["health"], bad["reason"]) == ("failing", "Twice in a row: the host has no address")
    assert "Twice in a row" in said(database_url, capsys, "feeds", code=5)


def test_numbers_and_requeue(database_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with connected(database_url) as connection:
        source = put_source(connection, status="failed")
        for error in ("too_long: x", "provider_down: y", "provider_down: z"):
            put_request(connection, put_article(connection, source), "failed", error_message=error)
    found = called(database_url, capsys, "stats")
    assert found["queue"] == {"pending": 0, "processing": 0, "completed": 0, "failed": 3, "cancelled": 0}
    assert found["sources"] == {"failing": 0, "failed": 1}
    assert "failed" in said(database_url, capsys, "stats")
    assert called(database_url, capsys, "requeue", "--error", "provider_down") == {"requeued": 2}
    assert called(database_url, capsys, "requeue", "--failed") == {"requeued": 1}
    assert called(database_url, capsys, "requeue", "--sources") == {"requeued": 1}
    assert "say which" in said(database_url, capsys, "requeue", code=2)
    with connected(database_url) as connection:
        assert set(connection.scalars(sa.select(ClassificationRequest.status))) == {"pending"}
        assert connection.scalar(sa.select(FeedSource.status)) == "due"


def test_a_list_is_exported(database_url: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with connected(database_url) as connection:
        put_source(connection, "Kept")
        put_source(connection, "Gone", status="retired")
    assert "Kept" in said(database_url, capsys, "opml", "export")
    file = tmp_path / "out.opml"
    said(database_url, capsys, "opml", "export", "--out", str(file))
    assert "Kept" in file.read_text()
    assert "Gone" not in file.read_text()
    assert "Is a directory" in said(database_url, capsys, "opml", "export", "-o", str(tmp_path), code=2)


def test_a_sync_says_what_failed(database_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert called(database_url, capsys, "sync")["feeds"] == 0
    with connected(database_url) as connection:
        put_source(connection, url="http://127.0.0.1:1/feed", host="127.0.0.1:1")
    found = called(database_url, capsys, "sync", code=5)
    assert (found["feeds"], found["failed"]) == (1, {"address_refused": 1})
    assert "1 failed (address_refused 1)" in said(database_url, capsys, "sync", code=5)


def test_a_wrong_setting_is_named(
    sqlite_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARTICLES_BATCH_SIZE", "many")
    assert "ARTICLES_BATCH_SIZE" in said(sqlite_url, capsys, "stats", code=2)


@pytest.mark.parametrize("command", ["work", "serve"])
def test_a_classifier_that_can_t_be_opened_is_an_error_of_the_command(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Otherwise every article would spend its three tries on a wrong setting."""
    monkeypatch.setenv("ARTICLES_DATABASE_URL", f"sqlite:///{tmp_path / 'articles.db'}")
    monkeypatch.setenv("ARTICLES_CLASSIFIER", "mdeberta")

    assert run(["systems", "articles", command]) == 2

    assert "Set ARTICLES_MDEBERTA_PATH" in capsys.readouterr().err
