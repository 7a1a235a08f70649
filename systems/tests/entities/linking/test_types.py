"""Words of others for our types."""

import tomllib
from importlib.resources import files

import pytest

from rowmill_systems.entities import linking
from rowmill_systems.entities.linking.types import type_of, types_of_dbpedia, types_of_wikidata
from rowmill_systems.parts.names.folding import folded
from rowmill_systems.parts.names.types import EntityType

PERSON, ORGANISATION, PLACE = EntityType.PERSON, EntityType.ORGANISATION, EntityType.PLACE
WORK, EVENT, OTHER = EntityType.WORK, EntityType.EVENT, EntityType.OTHER


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("PERSON", PERSON),
        ("PER", PERSON),
        ("B-PER", PERSON),
        ("i-org", ORGANISATION),
        ("human", PERSON),
        ("film director", PERSON),
        ("ORG", ORGANISATION),
        ("organization", ORGANISATION),
        ("Software company", ORGANISATION),
        ("Companies", ORGANISATION),
        ("investment banks", ORGANISATION),
        ("comic book series", WORK),
        ("http://schema.org/Organization", ORGANISATION),
        ("GPE", PLACE),
        ("LOC", PLACE),
        ("FAC", PLACE),
        (" City ", PLACE),
        ("WORK_OF_ART", WORK),
        ("schema:Book", WORK),
        ("film", WORK),
        ("EVENT", EVENT),
        ("événement", EVENT),
        ("会社", ORGANISATION),
        ("PRODUCT", OTHER),
        ("MISC", None),
        ("xyzzy", None),
        ("", None),
        ("   ", None),
        ("::/", None),
        (None, None),
    ],
)
def test_words_of_extractors(word: str | None, expected: EntityType | None) -> None:
    assert type_of(word) is expected


@pytest.mark.parametrize("type", EntityType)
def test_our_own_words_are_known(type: EntityType) -> None:
    assert type_of(type.value) is type


def test_classes_of_wikidata() -> None:
    assert types_of_wikidata(["Q5"]) == {PERSON}
    assert types_of_wikidata(["Q4830453", "Q891723"]) == {ORGANISATION}
    assert types_of_wikidata(["http://www.wikidata.org/entity/Q515"]) == {PLACE}
    assert types_of_wikidata(["Q33506"]) == {ORGANISATION, PLACE}, "a museum is both"
    assert types_of_wikidata(["Q11424"]) == {WORK}
    assert types_of_wikidata(["Q198", "q178561"]) == {EVENT}
    assert types_of_wikidata(["Q4167410"]) == {OTHER}, "a page that lists who is called so"
    assert types_of_wikidata(["Q99999999", "", "P31"]) == frozenset()


def test_classes_of_dbpedia() -> None:
    assert types_of_dbpedia(["http://dbpedia.org/ontology/Scientist"]) == {PERSON}
    assert types_of_dbpedia(["DBpedia:Company", "Schema:Organization", "Wikidata:Q4830453"]) == {ORGANISATION}
    assert types_of_dbpedia(["dbo:City", "http://www.w3.org/2002/07/owl#Thing"]) == {PLACE}
    assert (
        types_of_dbpedia(["http://schema.org/Person", "http://dbpedia.org/class/yago/Person100007846"]) == frozenset()
    )


def test_a_word_has_one_type() -> None:
    tables = tomllib.loads((files(linking) / "types.toml").read_text("utf-8"))
    known = [folded(word) for table in tables.values() for word in table["words"]]
    assert len(known) == len(set(known))
