"""One is chosen, or none: never a guess, and the same in any order."""

import dataclasses
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from rowmill_systems.entities.linking import choose as choosing
from rowmill_systems.entities.linking.choose import rank
from rowmill_systems.entities.linking.same import may_be_the_same
from rowmill_systems.entities.things import Candidate, Link, Mention
from rowmill_systems.parts.names.types import EntityType
from systems.tests.entities.linking.offered import (
    BASKETBALL,
    ORGANISATION,
    PERSON,
    PLACE,
    PROFESSOR,
    candidate,
    mention,
)

THRESHOLD, GAP = 0.75, 0.15
MERCURY = [
    candidate("Mercury", PLACE, "innermost planet of the Solar System", id="planet", prominence=0.7),
    candidate("Mercury", EntityType.OTHER, "chemical element, a liquid metal", id="element", prominence=0.7),
]
BERLIN = "http://dbpedia.org/resource/Berlin"


def choose(mention: Mention, candidates: Sequence[Candidate], *, order: Sequence[str] = ()) -> Link | None:
    return choosing.choose(mention, candidates, threshold=THRESHOLD, gap=GAP, order=order).link


def chosen(mention: Mention, *candidates: Candidate) -> str | None:
    link = choose(mention, candidates)
    return link.other_ids["embedded"] if link else None


class TestAmbiguity:
    def test_nobody_is_offered(self) -> None:
        assert choose(mention("Nobody"), []) is None

    def test_one_of_exactly_this_name(self) -> None:
        assert chosen(mention("Michael Jordan"), BASKETBALL) == "jordan"

    def test_a_name_that_is_another_is_no_link_though_nobody_else_is_there(self) -> None:
        assert chosen(mention("Michelle Gordon", PERSON), BASKETBALL) is None

    def test_two_of_the_same_name_and_nothing_that_tells_them_apart(self) -> None:
        assert chosen(mention("Mercury"), *MERCURY) is None

    def test_context_tells_them_apart(self) -> None:
        assert (
            chosen(mention("Mercury", context="the planet nearest to the Sun in our solar system"), *MERCURY)
            == "planet"
        )
        assert chosen(mention("Mercury", context="thermometers held this liquid metal"), *MERCURY) == "element"

    def test_type_tells_them_apart(self) -> None:
        assert chosen(mention("Mercury", PLACE), *MERCURY) == "planet"

    def test_a_birth_date_outweighs_fame(self) -> None:
        assert chosen(mention("Michael Jordan", PERSON, birth_date="1956-02-25"), BASKETBALL, PROFESSOR) == "professor"
        assert chosen(mention("Michael Jordan", PERSON, birth_date="1963"), BASKETBALL, PROFESSOR) == "jordan"

    def test_a_birth_date_of_neither_is_nobody(self) -> None:
        assert chosen(mention("Michael Jordan", PERSON, birth_date="1720"), BASKETBALL, PROFESSOR) is None

    def test_fame_tells_apart_only_if_it_differs_greatly(self) -> None:
        def of(prominence: float) -> Candidate:
            return candidate("Paris", PLACE, f"place {prominence}", id=str(prominence), prominence=prominence)

        assert chosen(mention("Paris"), of(1.0), of(0.1)) == "1.0"
        assert chosen(mention("Paris"), of(1.0), of(0.8)) is None

    def test_fame_tells_nobody_apart_if_there_is_a_context_that_says_nothing_of_them(self) -> None:
        city = candidate("Paris", PLACE, "capital of France", id="city", prominence=1.0)
        town = candidate("Paris", PLACE, "town in Lamar County", id="town", prominence=0.1)
        assert chosen(mention("Paris", PLACE), city, town) == "city"
        assert chosen(mention("Paris", PLACE, "tractors lined the courthouse square"), city, town) is None
        assert chosen(mention("Paris", PLACE, "tractors lined the courthouse square"), city) == "city"

    def test_the_wrong_type_is_no_link(self) -> None:
        assert chosen(mention("Michael Jordan", PLACE), BASKETBALL) is None


class TestSameThing:
    EMBEDDED = candidate("Berlin", PLACE, "capital of Germany", id="berlin", dbpedia_uri=BERLIN)
    WIKIDATA = candidate("Berlin", PLACE, source="wikidata", id="Q64", wikidata_id="Q64")
    DBPEDIA = candidate("Berlin", PLACE, source="dbpedia", id=BERLIN, wikidata_id="Q64", dbpedia_uri=BERLIN)

    def test_candidates_of_several_sources_are_one_also_by_way_of_a_third(self) -> None:
        link = choose(mention("Berlin"), [self.EMBEDDED, self.WIKIDATA, self.DBPEDIA])
        assert link
        assert (link.wikidata_id, link.dbpedia_uri, link.other_ids) == ("Q64", BERLIN, {"embedded": "berlin"})
        assert link.source == "dbpedia+embedded+wikidata"
        assert [link.id_in(source) for source in ("embedded", "wikidata", "dbpedia")] == ["berlin", "Q64", BERLIN]

    def test_without_what_joins_them_they_are_two_and_neither_stands_in_the_way_of_the_other(self) -> None:
        assert len(rank(mention("Berlin"), [self.EMBEDDED, self.WIKIDATA])) == 2
        link = choose(mention("Berlin"), [self.EMBEDDED, self.WIKIDATA], order=["wikidata"])
        assert link
        assert (link.source, link.wikidata_id, link.other_ids) == ("wikidata", "Q64", {})

    def test_what_can_not_be_the_same_stands_in_the_way(self) -> None:
        def chosen(other: Candidate) -> bool:
            return choose(mention("Berlin"), [self.EMBEDDED, other]) is not None

        assert chosen(candidate("Berlin", PLACE, "capital city", source="gleif", id="1"))
        assert not chosen(candidate("Berlin", PLACE, "town in Connecticut", source="gleif", id="1"))
        assert not chosen(candidate("Berlin", PERSON, "capital city", source="gleif", id="1"))
        assert not chosen(candidate("Berlin", PLACE, "capital city", id="another of the same source"))
        assert not chosen(candidate("Berlin", PLACE, source="gleif", id="1", dbpedia_uri=f"{BERLIN}_(Connecticut)"))
        here = candidate("Berlin", PLACE, facts={"population": (3_700_000,)}, source="a")
        there = candidate("Berlin", PLACE, facts={"population": (20_000,)}, source="b")
        assert choose(mention("Berlin"), [here, there]) is None

    def test_sources_are_named_in_their_order(self) -> None:
        link = choose(mention("Berlin"), [self.WIKIDATA, self.DBPEDIA], order=["wikidata", "embedded", "dbpedia"])
        assert link
        assert link.source == "wikidata+dbpedia"

    def test_agreement_is_worth_a_little(self) -> None:
        (both,), (one,) = (
            rank(mention("Berlin"), [self.WIKIDATA, self.DBPEDIA]),
            rank(mention("Berlin"), [self.WIKIDATA]),
        )
        assert one.score < both.score < one.score + 0.05

    def test_agreement_on_a_name_that_is_another_makes_no_link(self) -> None:
        assert choose(mention("Bern"), [self.WIKIDATA, self.DBPEDIA]) is None

    def test_an_id_of_dbpedia_is_the_same_however_it_is_written(self) -> None:
        written = [
            "http://dbpedia.org/resource/Zürich",
            "https://dbpedia.org/resource/Z%C3%BCrich",
            "http://dbpedia.org/page/Zürich",
        ]
        offered = [candidate("Zürich", source=f"s{n}", dbpedia_uri=uri) for n, uri in enumerate(written)]
        assert len(rank(mention("Zürich"), offered)) == 1

    def test_the_same_id_in_two_sources_is_not_the_same_thing(self) -> None:
        assert len(rank(mention("Ada"), [candidate("Ada", id="1"), candidate("Ada", id="1", source="gleif")])) == 2


def test_the_confidence_is_the_score_and_its_parts_can_be_told() -> None:
    (first, second) = rank(mention("Michael Jordan", PERSON, birth_date="1963-02-17"), [PROFESSOR, BASKETBALL])
    assert first.candidates == (BASKETBALL,)
    assert (first.parts.name, first.parts.type, first.parts.facts) == (1, 1, 1)
    assert second.parts.facts == -1
    link = choose(mention("Michael Jordan", PERSON, birth_date="1963-02-17"), [PROFESSOR, BASKETBALL])
    assert link
    assert (link.confidence, link.label) == (first.score, "Michael Jordan")


CANDIDATES = st.lists(
    st.builds(
        Candidate,
        source=st.sampled_from(["embedded", "wikidata", "gleif"]),
        id=st.sampled_from(["Q1", "Q2", "Q3", "4"]),
        name=st.sampled_from(["Paris", "Paris Hilton", "Paris, Texas"]),
        types=st.sets(st.sampled_from([PERSON, PLACE, ORGANISATION]), max_size=2).map(frozenset),
        description=st.sampled_from(["", "capital of France", "city in Texas", "American heiress in a hotel"]),
        prominence=st.sampled_from([0.0, 0.3, 0.9]),
        wikidata_id=st.sampled_from([None, "Q1", "Q2", "Q3"]),
        dbpedia_uri=st.sampled_from([None, "http://dbpedia.org/resource/Paris", "http://dbpedia.org/resource/X"]),
    ),
    max_size=8,
)


@given(CANDIDATES, st.randoms(), st.sampled_from(["", "She left the hotel", "a trip to the capital of France"]))
def test_any_order_of_candidates_gives_the_same(candidates: list[Candidate], random: object, context: str) -> None:
    shuffled = list(candidates)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    meant = Mention("Paris", None, context)
    assert choose(meant, shuffled) == choose(meant, candidates)
    assert [each.score for each in rank(meant, shuffled)] == [each.score for each in rank(meant, candidates)]


@given(CANDIDATES)
def test_who_is_chosen_is_likely_enough_and_far_enough_ahead(candidates: list[Candidate]) -> None:
    ranked, link = rank(Mention("Paris"), candidates), choose(Mention("Paris"), candidates)
    others = [each for each in ranked[1:] if not may_be_the_same(ranked[0].candidates, each.candidates)]
    ahead = all(1 - ranked[0].score <= (1 - GAP) * (1 - each.score) + 1e-12 for each in others)
    assert (link is not None) == bool(ranked and ranked[0].score >= THRESHOLD and ahead)


def test_a_crowd_of_the_same_name_is_looked_at_up_to_a_point_that_is_the_same_in_any_order() -> None:
    crowd = [dataclasses.replace(BASKETBALL, id=str(number), wikidata_id=None) for number in range(1000)]
    assert choose(mention("Michael Jordan"), crowd) is None
    forwards, backwards = rank(mention("Michael Jordan"), crowd), rank(mention("Michael Jordan"), crowd[::-1])
    assert forwards == backwards
    assert len(forwards) < len(crowd)
