"""`train` and `evaluate`, as they are called."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rowmill.cli.main import run
from tools.articles_quality import examples

GROUPS = ("sport", "business", "technology", "culture")
Command = Callable[..., str]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Call a command in a folder, and return what it prints; what it refuses with, if `code` is not 0."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def call(*words: str, code: int = 0) -> str:
        capsys.readouterr()
        got = run(["systems", "articles", *words])
        out, said = capsys.readouterr()
        assert got == code, (got, out, said)
        return said if code else out

    return call


@pytest.fixture
def news(tmp_path: Path) -> Path:
    """Our examples in English, with labels 1 to 4, without a header."""
    file = tmp_path / "news.csv"
    with file.open("w", encoding="utf-8", newline="") as opened:
        for language, topics, text in examples():
            groups = {topic.split(".")[0] for topic in topics}
            if language == "en" and len(groups) == 1 and (group := groups.pop()) in GROUPS:
                csv.writer(opened).writerow([GROUPS.index(group) + 1, text.split(". ")[0], text])
    return file


MAPPED = [word for place, group in enumerate(GROUPS, 1) for word in ("--map", f"{place}={group}")]


def test_a_model_is_trained_used_and_measured(command: Command, news: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained: dict[str, Any] = json.loads(command("train", "news.csv", *MAPPED, "--out", "own.npz", "--json"))
    before: dict[str, Any] = json.loads(command("evaluate", "news.csv", *MAPPED, "--json"))
    monkeypatch.setenv("ARTICLES_TRAINED_MODEL", "own.npz")
    after: dict[str, Any] = json.loads(command("evaluate", "news.csv", "--plot", "plot.svg", "--json"))

    assert trained["accuracy"] > 0.85
    assert trained["model"] == "own.npz"
    assert before["accuracy"] > 0.85
    assert after["accuracy"] > 0.95
    assert after["classifier"].startswith("trained-4-")
    assert Path("plot.svg").read_text().startswith("<svg")


def test_people_get_tables(command: Command, news: Path) -> None:
    measured = command("evaluate", "news.csv", *MAPPED)
    trained = command("train", "news.csv", "--label", "1", "--title", "2", "--text", "3", *MAPPED)

    for expected in ("accuracy", "precision", "is \\ said", "calibration error", "articles covered"):
        assert expected in measured
    for expected in ("accuracy on", "by the descriptions of topics alone", "ARTICLES_TRAINED_MODEL=topics.npz"):
        assert expected in trained


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["evaluate", "none.csv"], "none.csv: it is not there"),
        (["evaluate", "news.csv"], 'mean nothing to the classifier: 1, 2, 3, 4. Say what they mean: --map "1='),
        (["evaluate", "news.csv", "--map", "1"], "is not label=topic"),
        (["evaluate", "news.csv", "--taxonomy", "none.toml"], "it can't be read"),
        (["evaluate", "news.csv", "--model", "none.npz"], "it can't be read"),
        (["evaluate", "news.csv", *MAPPED, "--plot", "no/such.svg"], "it can't be written"),
        (["train", "news.csv", "--label", "nothing"], "it has no column nothing"),
        (["train", "news.csv", "--label", "3", "--title", "2"], "labels need 5 articles each"),
        (["train", "news.csv", "--out", "no/such/model.npz"], "the folder does not exist"),
        (["train", "news.csv", "--limit", "3"], "At least 2 are needed"),
    ],
)  # fmt: skip
def test_what_can_not_be_done_is_refused_with_the_fix(
    words: list[str], said: str, command: Command, news: Path
) -> None:
    assert said in command(*words, code=2)


def test_rare_labels_can_be_left_out(command: Command, news: Path) -> None:
    with news.open("a") as file:
        file.write("9,Odd,One odd article\n")

    assert "9 (1)" in command("train", "news.csv", code=2)
    assert "9" not in json.loads(command("train", "news.csv", "--drop-rare", "--json"))["labels"]
