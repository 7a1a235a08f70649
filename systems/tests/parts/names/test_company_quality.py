"""Holds the comparison of company names to its goals, on pairs whose answers are known."""

import pytest

from tools.company_names_quality import (
    BEGIN,
    END,
    HELD_OUT,
    PAGE,
    TUNED,
    JudgedPair,
    figures,
    judged,
    pairs,
    written,
)

pytestmark = pytest.mark.xdist_group("company quality")


@pytest.fixture(scope="module")
def found() -> list[JudgedPair]:
    return judged(pairs())


@pytest.mark.parametrize("half", [TUNED, HELD_OUT])
def test_names_said_to_be_the_same_are_and_enough_of_them_are_found(found: list[JudgedPair], half: str) -> None:
    measured = figures([each for each in found if each.pair.half == half])
    assert measured.pairs >= 300
    assert measured.precision >= 0.97
    assert measured.recall >= 0.85


@pytest.mark.parametrize("script", ["latin", "chinese", "japanese", "cyrillic"])
def test_no_script_is_left_behind(found: list[JudgedPair], script: str) -> None:
    measured = figures([each for each in found if each.pair.script == script])
    assert measured.pairs >= 60
    assert measured.precision >= 0.95
    assert measured.recall >= 0.80


def test_each_pair_is_there_once() -> None:
    known = [frozenset((pair.one, pair.other)) for pair in pairs()]
    assert len(known) == len(set(known)) >= 600


def test_the_page_says_what_is_measured(found: list[JudgedPair]) -> None:
    _, rest = PAGE.read_text("utf-8").split(BEGIN)
    assert rest.split(END)[0] == written(found), "run: python -m tools.company_names_quality --write"
