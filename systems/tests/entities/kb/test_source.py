"""The embedded knowledge base as a source."""

from pathlib import Path

from rowmill_systems.entities.sources.embedded import EmbeddedSource
from rowmill_systems.entities.sources.port import Source
from rowmill_systems.entities.things import Candidate, Fact, Mention
from rowmill_systems.parts.names.types import EntityType
from systems.tests.entities.kb.sample_kbs import built

ADA = {
    "id": "ada",
    "name": "Ada Lovelace",
    "types": ["person"],
    "aliases": ["Ada Byron"],
    "description": "mathematician",
    "prominence": 0.7,
    "properties": {"birth_date": "1815-12-10", "website": "https://example.org/"},
    "wikidata_id": "Q7259",
    "dbpedia_uri": "http://dbpedia.org/resource/Ada_Lovelace",
}


async def test_a_thing_is_offered_with_all_that_is_known(tmp_path: Path) -> None:
    source: Source = EmbeddedSource(built(tmp_path, ADA))
    (candidate,) = await source.candidates(Mention("ada byron", EntityType.PERSON))
    assert candidate == Candidate(
        source="embedded",
        id="ada",
        name="Ada Lovelace",
        aliases=("Ada Byron",),
        types=frozenset({EntityType.PERSON}),
        description="mathematician",
        prominence=0.7,
        facts={"birth_date": ("1815-12-10",), "website": ("https://example.org/",)},
        wikidata_id="Q7259",
        dbpedia_uri="http://dbpedia.org/resource/Ada_Lovelace",
    )


async def test_facts_are_of_the_properties_that_the_type_has(tmp_path: Path) -> None:
    source = EmbeddedSource(built(tmp_path, ADA))
    born = Fact("birth_date", ("1815-12-10",), "embedded", "ada")
    site = Fact("website", ("https://example.org/",), "embedded", "ada")
    assert await source.facts("ada", EntityType.PERSON) == [born, site]
    assert await source.facts("ada", None) == [born, site]
    assert await source.facts("ada", EntityType.PLACE) == [site]
    assert await source.facts("nobody", None) == []


async def test_a_type_that_was_extracted_wrongly_hides_nothing(tmp_path: Path) -> None:
    source = EmbeddedSource(built(tmp_path, ADA))
    assert [each.id for each in await source.candidates(Mention("Ada Lovelace", EntityType.PLACE))] == ["ada"]


async def test_among_many_of_a_name_those_of_the_type_come_first(tmp_path: Path) -> None:
    places = [{"id": f"p{n}", "name": "Springfield", "types": ["place"], "prominence": 0.9} for n in range(12)]
    band = {"id": "band", "name": "Springfield", "types": ["organisation"], "prominence": 0.1}
    source = EmbeddedSource(built(tmp_path, *places, band))
    found = await source.candidates(Mention("Springfield", EntityType.ORGANISATION))
    assert found[0].id == "band"
    assert len(found) == 10


async def test_whoever_opened_the_knowledge_base_closes_it(tmp_path: Path) -> None:
    base = built(tmp_path, ADA)
    await EmbeddedSource(base).close()
    assert base.get("ada") is not None
