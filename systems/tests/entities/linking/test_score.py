"""Each part of a score can be seen, and each does what it says."""

import dataclasses
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowmill_systems.entities.linking.context import in_common, rarity, telling
from rowmill_systems.entities.linking.evidence import agreement
from rowmill_systems.entities.linking.score import Parts, score
from rowmill_systems.entities.things import Candidate, Mention
from rowmill_systems.parts.names.types import EntityType
from systems.tests.entities.linking.offered import (
    BASKETBALL,
    EVENT,
    ORGANISATION,
    OTHER,
    PERSON,
    PLACE,
    PROFESSOR,
    candidate,
    mention,
)


class TestScore:
    def test_an_exact_name_alone_leaves_a_doubt(self) -> None:
        assert Parts(name=1.0).score == 0.75

    @pytest.mark.parametrize("part", ["type", "context", "facts", "prominence"])
    def test_each_part_speaks_for_it(self, part: str) -> None:
        assert 0.75 < dataclasses.replace(Parts(name=1.0), **{part: 0.5}).score < 1
        half, whole = (dataclasses.replace(Parts(name=1.0), **{part: value}).score for value in (0.5, 1.0))
        assert half < whole < 1

    @pytest.mark.parametrize("part", ["type", "context", "facts"])
    def test_each_part_speaks_against_it(self, part: str) -> None:
        assert dataclasses.replace(Parts(name=1.0), **{part: -1.0}).score < 0.75

    def test_no_evidence_makes_up_for_another_name(self) -> None:
        assert Parts(name=0.6, type=1, context=1, facts=1, prominence=1).score < 0.6

    def test_a_contradiction_outweighs_fame(self) -> None:
        assert Parts(name=1, prominence=1, type=-1).score < 0.5
        assert Parts(name=1, prominence=1, type=1, context=0.5, facts=-1).score < 0.5


class TestName:
    def test_the_likest_name_counts_and_an_alias_a_little_less(self) -> None:
        assert score(mention("Michael Jordan"), BASKETBALL).name == 1
        assert 0.95 < score(mention("Air Jordan"), BASKETBALL).name < 1

    def test_what_is_behind_a_comma_must_be_true(self) -> None:
        paris = candidate("Paris", PLACE, "capital of France")
        texas = candidate("Paris", PLACE, "city in Lamar County, Texas, United States")
        assert score(mention("Paris, France"), paris).name > 0.95
        assert score(mention("Paris, Texas"), texas).name > 0.95
        assert score(mention("Paris, Texas"), paris).name < 0.7
        assert score(mention("Paris, TX"), texas).name > 0.95
        assert score(mention("Paris, TX"), paris).name < 0.7
        assert score(mention("Paris (in France)"), paris).name > 0.95
        assert score(mention("Washington, D.C."), candidate("Washington", PLACE, "state of the West")).name < 0.75

    def test_an_acronym_is_a_hint(self) -> None:
        nations = candidate("United Nations", ORGANISATION)
        assert score(mention("UN"), nations).name == 0.8
        assert score(mention("UN", ORGANISATION), nations).score < score(mention("United Nations"), nations).score

    def test_a_surname_is_a_hint_where_the_candidate_is_a_person(self) -> None:
        assert score(mention("Jordan"), BASKETBALL).name == pytest.approx(0.83, abs=0.02)
        assert score(mention("Jordan", PLACE), BASKETBALL).name < 0.7


class TestType:
    def test_agreement_contradiction_and_nothing(self) -> None:
        def said(type: EntityType | None, *types: EntityType) -> float:
            return score(mention("x", type), Candidate("embedded", "1", "x", types=frozenset(types))).type

        assert said(PERSON, PERSON) == said(PLACE, ORGANISATION, PLACE) == 1
        assert said(PERSON, PLACE) == said(EVENT, PERSON) == -1
        assert said(PERSON, OTHER) == -0.5
        assert -0.5 < said(ORGANISATION, PLACE) == said(OTHER, PERSON) < 0, "these are often mixed up"
        assert said(None, PERSON) == said(PERSON) == said(None) == 0

    def test_the_name_itself_may_say_it(self) -> None:
        fruit, company = candidate("Apple", OTHER, "fruit"), candidate("Apple", ORGANISATION, "company")
        assert score(mention("Apple Inc."), company).type == 1
        assert score(mention("Apple Inc."), fruit).type < 0
        assert score(mention("Apple"), fruit).type == 0


class TestContext:
    def test_words_in_common(self) -> None:
        around = mention("Michael Jordan", context="He teaches machine learning in Berkeley.")
        assert score(around, PROFESSOR).context > 0.8
        assert score(around, BASKETBALL).context < 0.5

    def test_the_name_itself_and_small_words_say_nothing(self) -> None:
        assert score(mention("Michael Jordan", context="Michael Jordan was the one of them"), BASKETBALL).context == 0

    def test_a_context_that_has_nothing_in_common_speaks_against_it_the_more_the_less_known_it_is(self) -> None:
        around = mention("Michael Jordan", context="Violin sonatas echoed through Vienna's oldest concert halls")
        assert -1 < score(around, PROFESSOR).context < score(around, BASKETBALL).context < 0
        assert score(mention("Michael Jordan", context="violin"), PROFESSOR).context == 0, "one word is too few"
        assert score(around, candidate("Michael Jordan")).context == 0, "there is nothing to compare it with"

    def test_other_facts_of_the_row_are_context_too(self) -> None:
        assert score(mention("Michael Jordan", team="Chicago Bulls"), BASKETBALL).context > 0.5
        assert score(mention("Michael Jordan", team=["Chicago", 3, None]), BASKETBALL).context > 0.4
        assert score(mention("Michael Jordan", sample_kb="third row, blue box"), BASKETBALL).context == 0

    def test_a_word_that_all_have_is_worth_less(self) -> None:
        worth = rarity([telling("american player"), telling("american professor")])
        assert worth["states"] < worth["player"] == 1
        one, other = telling("american"), telling("player")
        both = telling("american player")
        assert in_common(one, both, worth) < in_common(other, both, worth)

    def test_words_of_one_stem_say_half(self) -> None:
        same = in_common(telling("physics"), telling("physics"), {})
        assert 0 < in_common(telling("physicist"), telling("physics"), {}) < same

    def test_words_that_say_the_same(self) -> None:
        assert telling("a French actress") == telling("an actor of France")
        assert telling("Maine’s lobster") == telling("lobster of Maine")

    def test_scripts_without_spaces(self) -> None:
        assert in_common(telling("東京大学の教授"), telling("日本の東京大学"), {}) > 0.5
        assert in_common(telling("京都"), telling("日本の東京大学"), {}) == 0


class TestFacts:
    @pytest.mark.parametrize(
        ("key", "ours", "theirs", "low", "high"),
        [
            ("birth_date", "1815-12-10", "1815-12-10", 1, 1),
            ("birth_date", "1815", "1815-12-10", 0.5, 0.7),
            ("birth_date", 1815, "1815-12-10", 0.5, 0.7),
            ("birth_date", "-0044-03-15", "-0044-03", 0.7, 0.9),
            ("birth_date", "1815-12-11", "1815-12-10", -0.3, -0.1),
            ("birth_date", "1816", "1815-12-10", -0.5, -0.5),
            ("birth_date", "1920-01-01", "1815-12-10", -1, -1),
            ("birth_date", "long ago", "1815-12-10", 0, 0),
            ("iso_country_code", "fr", "FR", 1, 1),
            ("iso_country_code", "de", "FR", -1, -1),
            ("isin", "US0378331005", "US5949181045", 0, 0),
            ("population", 2_100_000, 2_200_000, 0.5, 0.5),
            ("population", 25_000, 2_200_000, -0.5, -0.5),
            ("area", {"amount": 105.0, "unit": "km2"}, {"amount": 105.4, "unit": "km2"}, 0.5, 0.5),
            ("coordinates", {"lat": 48.85, "lon": 2.35}, {"lat": 48.86, "lon": 2.34}, 0.8, 0.8),
            ("coordinates", {"lat": 48.85, "lon": 2.35}, {"lat": 33.66, "lon": -95.55}, -1, -1),
            ("coordinates", "nowhere", {"lat": 33.66, "lon": -95.55}, 0, 0),
            ("country", "France", {"id": "Q142", "label": "France"}, 0.5, 0.5),
            ("country", {"id": "Q142", "label": "Frankreich"}, {"id": "Q142", "label": "France"}, 0.6, 0.6),
            ("country", "Germany", {"id": "Q142", "label": "France"}, -0.2, -0.05),
            ("occupation", "poet", {"id": "x", "label": "Mathematician"}, 0, 0),
            ("occupation", ["poet", "mathematician"], {"id": "x", "label": "Mathematician"}, 0.5, 0.5),
            ("website", "https://www.example.org/about", "http://example.org", 0.8, 0.8),
            ("website", "http://[", "http://[", 0, 0),
            ("unheard_of", "1", "1", 0, 0),
        ],
    )
    def test_by_kind_of_property(self, key: str, ours: Any, theirs: Any, low: float, high: float) -> None:
        assert low <= agreement({key: ours}, {key: (theirs,)}) <= high

    def test_they_add_up(self) -> None:
        facts: dict[str, tuple[Any, ...]] = {
            "birth_date": ("1815-12-10",),
            "country": ("France",),
            "death_date": ("1852",),
        }
        assert agreement({"birth_date": "1815", "death_date": "1852"}, facts) > agreement({"birth_date": "1815"}, facts)
        assert agreement({"birth_date": "1815", "death_date": "1900"}, facts) < 0

    def test_nothing_in_common_says_nothing(self) -> None:
        assert agreement({}, BASKETBALL.facts) == agreement({"birth_date": "1963"}, {}) == 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "label", "lat", "lon", "amount"]), inner, max_size=3)
    ),
    max_leaves=5,
)
KEYS = st.sampled_from(
    ["birth_date", "country", "population", "area", "coordinates", "website", "lei", "occupation", "other"]
)


@given(
    st.text(max_size=40),
    st.sampled_from([None, *EntityType]),
    st.text(alphabet=string.printable, max_size=100),
    st.dictionaries(KEYS, JSON, max_size=4),
    st.text(max_size=40),
    st.lists(st.text(max_size=20), max_size=3),
    st.dictionaries(KEYS, st.lists(JSON, max_size=2).map(tuple), max_size=4),
    st.floats(),
)
def test_any_text_and_any_facts_give_a_score(
    name: str,
    type: EntityType | None,
    context: str,
    known: dict[str, Any],
    other: str,
    aliases: list[str],
    facts: dict[str, tuple[Any, ...]],
    prominence: float,
) -> None:
    offered = Candidate("s", "1", other, tuple(aliases), frozenset({PERSON}), context, prominence, facts)
    assert 0 <= score(Mention(name, type, context, known), offered).score <= 1


def test_a_name_of_a_million_letters_is_read_up_to_a_point() -> None:
    long = candidate("a b " * 250_000, description="x " * 500_000, aliases=("c d " * 100_000,) * 1000)
    assert 0 <= score(mention("a b " * 250_000, context="x " * 500_000), long).score <= 1


def test_places_that_are_on_no_globe_say_nothing() -> None:
    for odd in ({"lat": 10**400, "lon": 1}, {"lat": 1e308, "lon": -1e308}):
        assert agreement({"coordinates": odd}, {"coordinates": ({"lat": 1.0, "lon": 1e308},)}) == 0.0
