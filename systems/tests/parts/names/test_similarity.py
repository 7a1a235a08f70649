"""Names of one thing are alike; what distinguishes two things keeps their names apart."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rowmill_systems.parts.names.readings import implied_type, readings
from rowmill_systems.parts.names.similarity import acronym
from rowmill_systems.parts.names.similarity import name_similarity as alike
from rowmill_systems.parts.names.types import EntityType
from systems.tests.entities.linking.offered import EVENT, ORGANISATION, PERSON, PLACE, WORK


@pytest.mark.parametrize(
    ("one", "other", "type"),
    [
        ("Apple", "Apple Inc.", ORGANISATION),
        ("Siemens AG", "SIEMENS", None),
        ("Ferrari S.p.A.", "Ferrari", ORGANISATION),
        ("Bosch GmbH & Co. KG", "Bosch", ORGANISATION),
        ("株式会社ソニー", "ソニー", ORGANISATION),
        ("㈱ソニー", "ソニー", ORGANISATION),
        ("The Beatles", "Beatles", ORGANISATION),
        ("Procter & Gamble", "Procter and Gamble", ORGANISATION),
        ("Tolkien, J.R.R.", "J. R. R. Tolkien", PERSON),
        ("J. R. R. Tolkien", "John Ronald Reuel Tolkien", PERSON),
        ("JRR Tolkien", "J. R. R. Tolkien", None),
        ("Толстой, Лев", "Лев Толстой", None),
        ("Sir Isaac Newton", "Isaac Newton", PERSON),
        ("Dr. Angela Merkel", "Angela Merkel", None),
        ("John Kennedy", "John Fitzgerald Kennedy", PERSON),
        ("Albert Einstien", "Albert Einstein", PERSON),
        ("Karl Mrx", "Karl Marx", PERSON),
        ("Newcastle upon Tnye", "Newcastle upon Tyne", PLACE),
        ("Munihc", "Munich", PLACE),
        ("Mueller", "Müller", PERSON),
        ("Spiderman", "Spider-Man", WORK),
        ("St. Petersburg", "Saint Petersburg", PLACE),
        ("World War 2", "Second World War", EVENT),
        ("World War Two", "World War II", EVENT),
        ("henry viii", "Henry VIII", PERSON),
        ("Elizabeth the Second", "Elizabeth II", PERSON),
        ("Xi Jinping", "Jinping Xi", PERSON),
        ("Formula1", "Formula 1", EVENT),
        ("Mercury (planet)", "Mercury", None),
    ],
)
def test_names_of_one_thing(one: str, other: str, type: EntityType | None) -> None:
    assert alike(one, other, type) >= 0.85
    assert alike(other, one, type) >= 0.85


@pytest.mark.parametrize(
    ("one", "other", "type"),
    [
        ("Apollo 11", "Apollo 13", None),
        ("Apollo", "Apollo 13", None),
        ("Henry VIII", "Henry VII", PERSON),
        ("Henry", "Henry VIII", PERSON),
        ("Louis XIV", "Louis XVI", None),
        ("World War I", "World War II", EVENT),
        ("First World War", "World War II", EVENT),
        ("2008 Summer Olympics", "2012 Summer Olympics", EVENT),
        ("1984", "1985", WORK),
        ("iPhone 4", "iPhone 4s", None),
        ("Martin Luther King Sr.", "Martin Luther King Jr.", PERSON),
        ("Disney+", "Disney", ORGANISATION),
        ("North Korea", "South Korea", PLACE),
        ("Virginia", "West Virginia", PLACE),
        ("Iran", "Iraq", PLACE),
        ("Gambia", "Zambia", PLACE),
        ("Niger", "Nigeria", PLACE),
        ("Austria", "Australia", PLACE),
        ("Manchester United", "Manchester City", ORGANISATION),
        ("Bank of America", "Bank of England", ORGANISATION),
        ("University of Oxford", "University of Cambridge", ORGANISATION),
        ("Charlotte Brontë", "Emily Brontë", PERSON),
        ("June Smith", "Jane Smith", PERSON),
        ("Slovakia", "Slovenia", PLACE),
        ("Mal", "Mali", PLACE),
        ("A. Newton", "Isaac Newton", PERSON),
        ("King Crimson", "Crimson", None),
        ("東京", "京都", PLACE),
        ("Ford", "Harrison Ford", ORGANISATION),
    ],
)
def test_names_of_two_things(one: str, other: str, type: EntityType | None) -> None:
    assert alike(one, other, type) < 0.75
    assert alike(other, one, type) < 0.75


def test_a_word_that_each_has_for_itself_is_worse_than_one_that_is_left_out() -> None:
    other = alike("Secretary of State of the United States", "Secretary of Defense of the United States", None)
    assert other < 0.65 < alike("Secretary of State of the United States", "Secretary of the United States", None)


def test_another_order_and_an_umlaut_in_two_letters_cost_next_to_nothing() -> None:
    assert 0.95 < alike("Jinping Xi", "Xi Jinping", PERSON) < 1
    assert 0.95 < alike("Mueller", "Müller", PERSON) < 1


def test_a_slip_costs_something_and_a_middle_name_too() -> None:
    assert alike("Albert Einstien", "Albert Einstein", PERSON) < 1
    assert alike("Michael Jordan", "Michael B. Jordan", PERSON) < 1
    assert alike("Michael Jordan", "Michael Jordan", PERSON) == 1


def test_a_surname_alone_is_a_hint_for_people_only() -> None:
    assert alike("Einstein", "Albert Einstein", PERSON) == alike("Mr. Einstein", "Albert Einstein", PERSON) == 0.83
    assert alike("Albert", "Albert Einstein", PERSON) < 0.7
    assert alike("Hilton", "Paris Hilton", PLACE) < 0.7


def test_an_initial_is_no_article() -> None:
    assert alike("A. Newton", "Newton", PERSON) < 0.8
    assert alike("A Study in Scarlet", "Study in Scarlet", WORK) > 0.9


def test_an_initial_is_no_numeral_and_a_numeral_no_initial() -> None:
    assert readings("John V. Smith", PERSON)[0].numbers == frozenset()
    assert readings("John V Smith", PERSON)[0].numbers == frozenset()
    assert readings("Charles V of Spain", PERSON)[0].numbers == {"5"}
    assert readings("Charles V, Holy Roman Emperor", PERSON)[0].numbers == {"5"}
    assert readings("Xi Jinping", PERSON)[0].numbers == frozenset()
    assert readings("Jinping Xi", PERSON)[0].numbers == frozenset(), "numerals are in capitals"


def test_what_stands_behind_the_name_is_read_apart() -> None:
    assert {(way.words, way.aside) for way in readings("Paris, Texas", PLACE)} == {
        (("paris", "texas"), ()),
        (("paris",), ("texas",)),
    }
    assert [way.aside for way in readings("Mercury (planet)", None)] == [("planet",)]
    assert [way.words for way in readings("Crouching Tiger, Hidden Dragon", WORK)] == [
        ("crouching", "tiger", "hidden", "dragon")
    ]


def test_a_name_that_is_all_small_words_keeps_them() -> None:
    assert readings("The The", None)[0].words == ("the", "the")
    assert readings("(株)", None)
    assert alike("The Who", "The The") < 0.75


def test_acronyms() -> None:
    (nations,) = readings("United Nations", ORGANISATION)
    (nasa,) = readings("National Aeronautics and Space Administration", ORGANISATION)
    assert acronym("UN", nations) == acronym("U.N.", nations) == 0.8
    assert 0.8 < acronym("NASA", nasa) < 1, "four letters are no chance"
    assert acronym("un", nations) == 0, "that is a word"
    assert acronym("US", nations) == 0


def test_what_a_name_says_of_its_type() -> None:
    assert implied_type("Acme s.r.o.") is ORGANISATION
    assert implied_type("トヨタ自動車株式会社") is ORGANISATION
    assert implied_type("Dr. Strangelove") is PERSON
    assert implied_type("Paris") is None
    assert implied_type("AG") is None


@settings(deadline=None)  # the first name reads the word lists
@given(st.text(max_size=60), st.text(max_size=60), st.sampled_from([None, *EntityType]))
def test_likeness_is_a_share_and_the_same_name_is_alike(one: str, other: str, type: EntityType | None) -> None:
    assert 0 <= alike(one, other, type) <= 1
    if readings(one, type):
        assert alike(one, one, type) == 1
