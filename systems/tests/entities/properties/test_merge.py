"""Local facts and those of sources, merged."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rowmill_systems.entities.properties.merge import Merged, merge
from rowmill_systems.entities.things import Fact

LONDON = {"id": "Q84", "label": "London"}
BELIEVED = ("wikidata", "dbpedia")


def wikidata(property: str, *values: Any) -> Fact:
    return Fact(property, values, "wikidata", "Q7259")


def dbpedia(property: str, *values: Any) -> Fact:
    return Fact(property, values, "dbpedia", "http://dbpedia.org/resource/Ada_Lovelace")


def values(merged: Merged, property: str) -> list[Any]:
    return [each["value"] for each in merged.properties[property]]


def who(merged: Merged, property: str) -> list[list[str]]:
    return [[source["source"] for source in each["sources"]] for each in merged.properties[property]]


def test_what_nobody_contradicts_is_taken_with_who_says_so() -> None:
    merged = merge({"birth_place": "London"}, [wikidata("birth_date", "1815-12-10")], BELIEVED, {})
    assert merged.properties == {
        "birth_place": [{"value": "London", "sources": [{"source": "local"}]}],
        "birth_date": [{"value": "1815-12-10", "sources": [{"source": "wikidata", "ref": "Q7259"}]}],
    }
    assert merged.conflicts == []


def test_a_local_fact_stays_also_where_others_say_it_better() -> None:
    merged = merge({"birth_date": "1815", "birth_place": "London"},
                   [wikidata("birth_date", "1815-12-10"), wikidata("birth_place", LONDON)], BELIEVED, {})  # fmt: skip
    assert values(merged, "birth_date") == ["1815"]
    assert values(merged, "birth_place") == ["London"]
    assert who(merged, "birth_date") == [["local", "wikidata"]]
    assert merged.conflicts == []


def test_of_two_sources_that_agree_the_one_that_says_more_is_quoted() -> None:
    merged = merge({}, [wikidata("birth_date", "1815"), dbpedia("birth_date", "1815-12-10")], BELIEVED, {})
    assert values(merged, "birth_date") == ["1815-12-10"]
    assert who(merged, "birth_date") == [["wikidata", "dbpedia"]]


def test_a_contradiction_is_reported_and_the_local_fact_holds() -> None:
    """E5."""
    facts = [wikidata("birth_date", "1815-12-10"), dbpedia("birth_date", "1815-12-10")]
    merged = merge({"birth_date": "1816-12-10"}, facts, BELIEVED, {})
    assert values(merged, "birth_date") == ["1816-12-10"]
    [conflict] = merged.conflicts
    assert (conflict.current_value, conflict.current_source) == ("1816-12-10", "local")
    assert (conflict.other_value, conflict.other_source) == ("1815-12-10", "wikidata+dbpedia")


def test_of_two_sources_the_one_that_is_believed_first_holds() -> None:
    facts = [dbpedia("birth_date", "1816"), wikidata("birth_date", "1815")]
    merged = merge(None, facts, BELIEVED, {})
    assert values(merged, "birth_date") == ["1815"]
    [conflict] = merged.conflicts
    assert (conflict.current_source, conflict.other_source) == ("wikidata", "dbpedia")
    other_way = merge(None, facts, ("dbpedia", "wikidata"), {})
    assert values(other_way, "birth_date") == ["1816"]


def test_a_source_with_several_values_does_not_contradict_itself_or_one_that_has_one_of_them() -> None:
    facts = [wikidata("birth_date", "1815", "1816"), dbpedia("birth_date", "1815-12-10", "1817")]
    merged = merge(None, facts, BELIEVED, {})
    assert values(merged, "birth_date") == ["1815-12-10"]
    assert merged.conflicts == []


def test_of_many_values_all_are_taken_and_none_twice() -> None:
    local = {"occupation": ["Mathematician", "poet"]}
    facts = [
        wikidata("occupation", {"id": "Q170790", "label": "mathematician"}, {"id": "Q5482740", "label": "programmer"})
    ]
    merged = merge(local, facts, BELIEVED, {})
    assert values(merged, "occupation") == ["Mathematician", "poet", {"id": "Q5482740", "label": "programmer"}]
    assert who(merged, "occupation") == [["local", "wikidata"], ["local"], ["wikidata"]]
    assert merged.conflicts == []


def test_a_decision_holds_and_says_so() -> None:
    local, facts = {"birth_date": "1816"}, [wikidata("birth_date", "1815-12-10")]
    [conflict] = merge(local, facts, BELIEVED, {}).conflicts
    merged = merge(local, facts, BELIEVED, {("birth_date", conflict.hash()): "1815-12-10"})
    assert values(merged, "birth_date") == ["1815-12-10"]
    assert who(merged, "birth_date") == [["decision", "wikidata"]]
    assert merged.conflicts == [conflict], "it is known still, so that nobody is asked again"


def test_a_decision_is_about_two_values_and_no_others() -> None:
    local = {"birth_date": "1816"}
    [conflict] = merge(local, [wikidata("birth_date", "1815")], BELIEVED, {}).conflicts
    decisions = {("birth_date", conflict.hash()): "1815"}
    merged = merge(local, [wikidata("birth_date", "1820")], BELIEVED, decisions)
    assert values(merged, "birth_date") == ["1816"]
    assert merged.conflicts[0].hash() != conflict.hash()


def test_of_two_decisions_the_last_holds() -> None:
    local = {"birth_date": "1816"}
    facts = [wikidata("birth_date", "1815"), dbpedia("birth_date", "1820")]
    first, second = merge(local, facts, BELIEVED, {}).conflicts
    decisions = {("birth_date", second.hash()): "1820", ("birth_date", first.hash()): "1815"}
    assert values(merge(local, facts, BELIEVED, decisions), "birth_date") == ["1815"]


def test_local_facts_that_the_catalogue_does_not_know_are_kept() -> None:
    merged = merge({"customer_number": 4711, "nothing": None}, [], BELIEVED, {})
    assert values(merged, "customer_number") == [4711]
    assert "nothing" not in merged.properties


PROPERTIES = st.sampled_from(["birth_date", "population", "occupation", "birth_place", "odd"])
VALUES = st.one_of(
    st.sampled_from(["1815", "1815-12-10", "1816", "London", "Paris"]),
    st.integers(0, 3),
    st.just(LONDON),
    st.none(),
)
FACTS = st.lists(
    st.builds(Fact, PROPERTIES, st.lists(VALUES, min_size=1, max_size=3).map(tuple),
              st.sampled_from(["wikidata", "dbpedia", "else"]), st.just("x")),
    max_size=6, unique_by=lambda fact: (fact.source, fact.property),
)  # fmt: skip


@given(st.dictionaries(PROPERTIES, VALUES), FACTS)
def test_local_facts_are_never_overwritten(local: dict[str, Any], facts: list[Fact]) -> None:
    """E5."""
    merged = merge(local, facts, BELIEVED, {})
    for key, value in local.items():
        if value is not None:
            assert merged.properties[key][0]["value"] == value
            assert merged.properties[key][0]["sources"][0] == {"source": "local"}


@given(st.dictionaries(PROPERTIES, VALUES), FACTS)
def test_the_order_in_which_sources_answer_does_not_matter(local: dict[str, Any], facts: list[Fact]) -> None:
    assert merge(local, facts, BELIEVED, {}) == merge(local, facts[::-1], BELIEVED, {})


def test_null_in_a_list_says_nothing_and_contradicts_nobody() -> None:
    merged = merge({"birth_date": [None, "1816"], "death_date": [None]}, [wikidata("birth_date", None, "1815")],
                   BELIEVED, {})  # fmt: skip
    assert values(merged, "birth_date") == ["1816"]
    assert "death_date" not in merged.properties
    assert [(one.current_value, one.other_value) for one in merged.conflicts] == [("1816", "1815")]
