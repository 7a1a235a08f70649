"""Names of one person are the same name however they are written; what tells two people apart is heard."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rowmill_systems.parts.names.people import MatchVerdict, compare_people
from rowmill_systems.parts.names.person_matching import analyze_person
from rowmill_systems.parts.names.similarity import name_similarity
from rowmill_systems.parts.names.types import EntityType
from tools.company_names_quality import END, HELD_OUT, TUNED, JudgedPair, figures, pairs, table
from tools.person_names_quality import BEGIN, PAGE, PAIRS, judged_people

SAME, UNSURE, DIFFERENT = MatchVerdict.SAME, MatchVerdict.UNSURE, MatchVerdict.DIFFERENT


@pytest.fixture(scope="module")
def found() -> list[JudgedPair]:
    return judged_people()


@pytest.mark.parametrize("half", [TUNED, HELD_OUT])
def test_names_said_to_be_of_one_person_are_and_enough_of_them_are_found(found: list[JudgedPair], half: str) -> None:
    measured = figures([each for each in found if each.pair.half == half])
    assert measured.pairs >= 50
    assert measured.precision >= 0.95
    assert measured.recall >= 0.90


def test_each_pair_of_people_is_there_once() -> None:
    known = [frozenset((pair.one, pair.other)) for pair in pairs(PAIRS)]
    assert len(known) == len(set(known)) >= 120


def test_the_page_on_people_says_what_is_measured(found: list[JudgedPair]) -> None:
    _, rest = PAGE.read_text("utf-8").split(BEGIN)
    assert rest.split(END)[0] == "\n".join(table(found)) + "\n", "run: python -m tools.person_names_quality --write"


@pytest.mark.parametrize(
    ("one", "other", "verdict", "against"),
    [
        ("Oleg Viktorovich Tarasenko", "Oleg Tarasenko", SAME, {"left_out"}),
        ("Einstein", "Albert Einstein", UNSURE, {"left_out"}),
        ("Albert", "Albert Einstein", DIFFERENT, {"left_out"}),
        ("Mohammed Ali", "Mohammed Ali Hassan", UNSURE, {"left_out"}),
        ("Hassan al-Tamimi", "Hussein al-Tamimi", DIFFERENT, {"core"}),
        ("Arthur Penhaligon Jr.", "Arthur Penhaligon Sr.", DIFFERENT, {"generation"}),
        ("Arthur Penhaligon Jr.", "Arthur Penhaligon", UNSURE, {"generation"}),
        ("Karl XII", "Karl XIV", DIFFERENT, {"numbers"}),
        ("Omar bin Abdullah Al Rumaithi", "Abdullah bin Omar Al Rumaithi", DIFFERENT, {"order"}),
        ("J. Whitlock", "M. Whitlock", DIFFERENT, {"core"}),
        ("J. Smith", "John Smith", UNSURE, set()),
        ("J. Whitlock", "John Whitlock", SAME, set()),
        ("Chernova, Tatiana V", "Tatiana Chernova", SAME, {"left_out"}),
        ("王伟", "王薇", DIFFERENT, {"core"}),
        ("习近平", "Xi Jinping", SAME, set()),
        ("김정은", "Kim Jong Un", SAME, set()),
        ("حسين علي", "Hossein Ali", SAME, set()),
        ("アルベルト・アインシュタイン", "Albert Einstein", SAME, set()),
        ("გიორგი ბერიძე", "Giorgi Beridze", SAME, set()),
        ("Արամ Պետրոսյան", "Aram Petrosyan", SAME, set()),
    ],
)
def test_reasons_name_what_tells_two_people_apart(
    one: str, other: str, verdict: MatchVerdict, against: set[str]
) -> None:
    match = compare_people(one, other)
    assert match.verdict is verdict, match
    assert {reason.code for reason in match.reasons if not reason.agrees} == against


def test_what_stands_before_a_comma_is_the_family_name() -> None:
    assert compare_people("AHMAD, Ayman", "AHMAD, Hasan").verdict is DIFFERENT
    (name,) = analyze_person("QUINTERO LEON, Alberto")
    assert [word.family for word in name.words] == [True, True, False]


def test_a_title_in_the_middle_is_a_name() -> None:
    assert compare_people("Mahmood Sultan Bashir", "Mahmood Nazir Bashir").verdict is DIFFERENT
    assert compare_people("Sultan Mahmood Bashir", "Mahmood Bashir").verdict is SAME


def test_a_name_without_letters_is_nobody() -> None:
    assert compare_people("", "Albert Einstein").score == 0
    assert compare_people("...", "...").verdict is not SAME or analyze_person("...")


def test_the_score_of_people_is_that_of_the_comparison() -> None:
    for one, other in (("Bill Hathersage", "William Hathersage"), ("Jane Calloway", "June Calloway")):
        assert name_similarity(one, other, EntityType.PERSON) == compare_people(one, other).score


@settings(deadline=None)  # the first name reads the word lists
@given(st.text(max_size=60), st.text(max_size=60))
def test_comparisons_of_people_are_symmetric(one: str, other: str) -> None:
    assert compare_people(one, other).score == compare_people(other, one).score
