"""Names as people write them, and things that they find."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowmill_systems.entities.kb.base import SqliteKnowledgeBase, open_knowledge_base
from rowmill_systems.entities.kb.thing import ThingIndex
from rowmill_systems.parts.names.types import EntityType
from systems.tests.entities.kb.sample_kbs import built

pytestmark = pytest.mark.xdist_group("knowledge base")

THINGS = (
    {"id": "einstein", "name": "Albert Einstein", "types": ["person"], "prominence": 0.9},
    {"id": "tolkien", "name": "J. R. R. Tolkien", "types": ["person"], "aliases": ["John Ronald Reuel Tolkien"]},
    {"id": "beethoven", "name": "Ludwig van Beethoven", "types": ["person"], "prominence": 0.9},
    {"id": "boeing", "name": "The Boeing Company", "types": ["organisation"]},
    {"id": "siemens", "name": "Siemens", "types": ["organisation"]},
    {"id": "fiat", "name": "Fiat S.p.A.", "types": ["organisation"]},
    {"id": "oxford", "name": "University of Oxford", "types": ["organisation"], "aliases": ["Oxford"]},
    {"id": "un", "name": "United Nations", "types": ["organisation"], "aliases": ["UN", "ООН", "联合国"]},
    {"id": "oxford-city", "name": "Oxford", "types": ["place"], "prominence": 0.5},
    {"id": "sao-paulo", "name": "São Paulo", "types": ["place"]},
    {"id": "usa", "name": "United States", "types": ["place"], "aliases": ["U.S.A."], "prominence": 1},
    {"id": "paris", "name": "Paris", "types": ["place"], "prominence": 0.9},
    {"id": "paris-texas", "name": "Paris", "types": ["place"], "prominence": 0.3},
    {"id": "obscure-paris", "name": "Paris"},
    {"id": "paris-opera", "name": "Paris Opera", "types": ["organisation"], "prominence": 1},
    {"id": "hamlet", "name": "Hamlet", "types": ["work"]},
)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteKnowledgeBase]:
    base = built(tmp_path_factory.mktemp("kb"), *THINGS)
    yield base
    base.close()


def ids(base: ThingIndex, name: str, most: int = 10, type: EntityType | None = None) -> list[str]:
    return [thing.id for thing in base.search(name, most=most, type=type)]


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("Albert Einstein", "einstein"),
        ("ALBERT  EINSTEIN", "einstein"),
        ("Einstein, Albert", "einstein"),
        ("albert-einstein", "einstein"),
        ("A. Einstein", "einstein"),
        ("Einstein A", "einstein"),
        ("Albert Enstein", "einstein"),
        ("Alber Einstien", "einstein"),
        ("Einstein", "einstein"),
        ("Einstien", "einstein"),
        ("J.R.R. Tolkien", "tolkien"),
        ("JRR Tolkien", "tolkien"),
        ("J R R Tolkien", "tolkien"),
        ("Tolkien, J. R. R.", "tolkien"),
        ("J. Tolkien", "tolkien"),
        ("L. van Beethoven", "beethoven"),
        ("L. Beethoven", "beethoven"),
        ("Boeing", "boeing"),
        ("Boeing Co.", "boeing"),
        ("boeing inc", "boeing"),
        ("Siemens AG", "siemens"),
        ("Siemens GmbH & Co. KG", "siemens"),
        ("FIAT", "fiat"),
        ("Oxford University", "oxford"),
        ("U.N.", "un"),
        ("оон", "un"),
        ("联合国", "un"),
        ("Sao Paulo", "sao-paulo"),
        ("ＳÃＯ　ＰＡＵＬＯ", "sao-paulo"),
        ("USA", "usa"),
        ("U. S. A.", "usa"),
        ("Paris, France", "paris"),
        ("Paris (France)", "paris"),
    ],
)
def test_a_name_is_found_however_it_is_written(base: SqliteKnowledgeBase, name: str, first: str) -> None:
    assert ids(base, name)[:1] == [first]


def test_namesakes_are_all_found_and_the_best_known_first(base: SqliteKnowledgeBase) -> None:
    assert ids(base, "Paris") == ["paris", "paris-texas", "obscure-paris", "paris-opera"]


def test_a_type_leaves_those_of_it_and_those_without_one(base: SqliteKnowledgeBase) -> None:
    assert ids(base, "Paris", type=EntityType.PLACE) == ["paris", "paris-texas", "obscure-paris"]
    assert ids(base, "Paris", type=EntityType.ORGANISATION) == ["obscure-paris", "paris-opera"]
    assert ids(base, "Albert Enstein", type=EntityType.PLACE) == []


def test_no_more_are_found_than_asked_for(base: SqliteKnowledgeBase) -> None:
    assert ids(base, "Paris", most=2) == ["paris", "paris-texas"]
    assert ids(base, "Paris", most=0) == []


@pytest.mark.parametrize("name", ["Zoroaster", "xqzw", "Hubert Meier", "1234567890"])
def test_what_is_like_nothing_finds_nothing(base: SqliteKnowledgeBase, name: str) -> None:
    assert ids(base, name) == []


def test_completing_goes_by_the_beginning_and_fame(base: SqliteKnowledgeBase) -> None:
    assert [thing.id for thing in base.complete("par")] == ["paris-opera", "paris", "paris-texas", "obscure-paris"]
    assert [thing.id for thing in base.complete("UNITED")] == ["usa", "un"]
    assert [thing.id for thing in base.complete("united", type=EntityType.ORGANISATION)] == ["un"]
    assert [thing.id for thing in base.complete("par", most=1)] == ["paris-opera"]
    assert base.complete("aris") == []


def test_an_unknown_id_is_nothing(base: SqliteKnowledgeBase) -> None:
    assert base.get("nobody") is None
    assert base.get("") is None
    assert base.get("\ud800") is None


def test_it_has_a_title_and_a_length(base: SqliteKnowledgeBase) -> None:
    assert (base.title, len(base)) == ("things", len(THINGS))


HOSTILE = [
    "", " ", "\0", "a\0b", '"', '""', "'", "\\", "*", "a*", "(", ")", "NEAR(", "NEAR(a b, 3)", "a OR b", "a AND", "NOT",
    '" OR "', "name:x", "^a", "-a", "+", "%", "_", ";DROP TABLE things", "\ud800", "x\udfffy", "\ud83d\ude00", "😀",
    "\u202e", "a" * 10_000, "a " * 5_000, "é" * 10_000, "\u0301" * 10_000, "(" * 10_000, "\U0010ffff", "?", "...", "ﷺ",
    "\x1b[31m",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_breaks_nothing(base: SqliteKnowledgeBase, text: str) -> None:
    assert len(ids(base, text, most=3)) <= 3
    assert len(base.complete(text, most=3)) <= 3
    assert base.get(text) is None
    assert ids(base, "Hamlet") == ["hamlet"]


@given(st.text())
def test_any_text_can_be_asked_for(shipped: SqliteKnowledgeBase, text: str) -> None:
    assert len(shipped.search(text)) <= 10
    assert len(shipped.complete(text)) <= 10


@pytest.fixture(scope="module")
def shipped() -> Iterator[SqliteKnowledgeBase]:
    base = open_knowledge_base()
    yield base
    base.close()


@pytest.mark.parametrize("in_memory", [True, False])
def test_several_threads_ask_one_knowledge_base(
    base: SqliteKnowledgeBase, shipped: SqliteKnowledgeBase, in_memory: bool
) -> None:
    asked = shipped if in_memory else base
    names = ["Albert Einstein", "Albert Enstein", "Paris", "Oxford", "Beethovn", "United Nations", "Sao Paulo", "xqzw"]
    alone = [ids(asked, name) for name in names]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda name: ids(asked, name), names * 25))
    assert together == alone * 25


def test_closing_twice_is_fine(tmp_path: Path) -> None:
    base = built(tmp_path, *THINGS[:1])
    base.close()
    base.close()
