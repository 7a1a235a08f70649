"""Holds linking to its goals, on mentions whose answers are known."""

import asyncio

import pytest

from rowmill_systems.entities.kb.base import open_knowledge_base
from rowmill_systems.entities.linking.linker import Linker
from rowmill_systems.entities.linking.score import SPEAKS_AGAINST, SPEAKS_FOR
from rowmill_systems.entities.settings import EntitiesSettings
from rowmill_systems.entities.sources.embedded import EmbeddedSource
from tools.entities_quality import BEGIN, END, HALVES, PAGE, Verdict, cases, counted, measured, verdicts, written

pytestmark = pytest.mark.xdist_group("entity quality")

SETTINGS = EntitiesSettings()
THRESHOLD, GAP = SETTINGS.link_threshold, SETTINGS.link_gap


@pytest.fixture(scope="module")
def found() -> list[Verdict]:
    return asyncio.run(verdicts(cases()))


def test_links_are_right_and_enough_of_them_are_made(found: list[Verdict]) -> None:
    """E5."""
    counts = counted(found, THRESHOLD, GAP)
    assert counts["precision"] >= 0.95
    assert counts["recall"] >= 0.80


@pytest.mark.parametrize("half", HALVES)
def test_also_in_the_half_that_nothing_was_tuned_on(found: list[Verdict], half: str) -> None:
    counts = counted([each for each in found if each.case.half == half], THRESHOLD, GAP)
    assert counts["mentions"] >= 100
    assert counts["precision"] >= 0.94
    assert counts["recall"] >= 0.77


def test_a_higher_confidence_is_right_more_often(found: list[Verdict]) -> None:
    sure, linked = (counted(found, threshold, GAP) for threshold in (0.9, 0.5))
    assert sure["precision"] >= linked["precision"]
    assert sure["precision"] >= 0.97


def test_answers_are_in_the_knowledge_base(found: list[Verdict]) -> None:
    known = open_knowledge_base()
    assert [each.case for each in found if each.case.answer is not None and known.get(each.case.answer) is None] == []


async def test_the_linker_links_as_it_is_measured(found: list[Verdict]) -> None:
    linker = Linker([EmbeddedSource(open_knowledge_base())], threshold=THRESHOLD, gap=GAP)
    for each in found[::10]:
        link = (await linker.link(each.case.mention)).link
        assert (link.other_ids["embedded"] if link else None) == each.linked(THRESHOLD, GAP)


def test_the_page_says_what_is_measured(found: list[Verdict]) -> None:
    _, rest = PAGE.read_text("utf-8").split(BEGIN)
    on_the_page = rest.split(END)[0].strip()
    assert on_the_page == written(measured(found, SETTINGS)).strip(), "run: python -m tools.entities_quality --write"


def test_the_page_names_the_shares_that_count() -> None:
    page = PAGE.read_text("utf-8")
    for part, share in SPEAKS_FOR.items():
        against = f"{SPEAKS_AGAINST[part] * 100:.0f} %" if part in SPEAKS_AGAINST else ""
        assert f"| {part} | {share * 100:.0f} % | {against}" in page
