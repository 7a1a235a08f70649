"""The catalogue of properties that ships."""

from rowmill_systems.entities.properties.catalogue import catalogue, properties_of
from rowmill_systems.parts.names.types import EntityType


def test_a_person_has_a_birth_date_and_a_company_has_none() -> None:
    assert "birth_date" in {each.key for each in properties_of(EntityType.PERSON)}
    assert "birth_date" not in {each.key for each in properties_of(EntityType.ORGANISATION)}


def test_without_a_type_every_property_may_be_there() -> None:
    assert len(properties_of(None)) == len(catalogue())


def test_what_any_thing_may_have() -> None:
    for type in EntityType:
        assert "website" in {each.key for each in properties_of(type)}


def test_no_source_calls_two_properties_by_one_name() -> None:
    wikidata = [each.wikidata for each in catalogue().values() if each.wikidata]
    assert len(wikidata) == len(set(wikidata))
    for type in EntityType:
        names = [name for each in properties_of(type) for name in each.dbpedia]
        assert len(names) == len(set(names)), type
