"""Every command that a page names is one of Rowmill's, with options that it has."""

from pathlib import Path

import pytest

from tests.docs.command_lines import commands, problem_of
from tests.docs.pages import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
GENERATED = ROOT / "docs" / "reference" / "cli.md"


@pytest.mark.parametrize("page", [page for page in PAGES if page != GENERATED], ids=lambda page: page.name)
def test_the_commands_of_a_page_exist(page: Path) -> None:
    found = {command: problem_of(command) for command in commands(page.read_text())}
    assert {command: problem for command, problem in found.items() if problem} == {}


def test_commands_are_found_and_wrong_ones_noticed() -> None:
    page = (
        "```console\n$ rowmill stat\n```\n\n    rowmill list files --colour red   # no\n\nSee `rowmill schedule run x`."
    )
    assert [problem_of(command) for command in commands(page)] == [
        "rowmill has no command stat", "--colour is no option of list", None
    ]  # fmt: skip
