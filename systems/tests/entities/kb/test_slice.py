"""The slice of general knowledge that ships."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rowmill_systems.entities.kb.base import SqliteKnowledgeBase, open_knowledge_base
from rowmill_systems.entities.kb.build import build
from rowmill_systems.entities.kb.checking import Wrong, checked
from rowmill_systems.entities.properties.catalogue import catalogue
from rowmill_systems.parts.names.types import EntityType
from tools.knowledge_slice.make import SLICE, made

pytestmark = pytest.mark.xdist_group("knowledge base")

LINES = [json.loads(line) for line in SLICE.read_text("utf-8").splitlines()]
BY_ID: dict[str, dict[str, Any]] = {line["id"]: line for line in LINES}
HUMAN_SIZED = 1_000_000


@pytest.fixture(scope="module")
def base() -> Iterator[SqliteKnowledgeBase]:
    base = open_knowledge_base()
    yield base
    base.close()


def test_it_is_what_its_tables_say() -> None:
    assert SLICE.read_text("utf-8") == made(), "run: python -m tools.knowledge_slice.make"


def test_every_line_is_valid_and_is_there_once() -> None:
    assert [(line["id"], found.problems) for line in LINES if isinstance(found := checked(line), Wrong)] == []
    assert len(BY_ID) == len(LINES) >= 1200
    assert SLICE.stat().st_size < HUMAN_SIZED


def test_it_loads_as_it_would_be_built(base: SqliteKnowledgeBase, tmp_path: Path) -> None:
    build(SLICE, tmp_path / "slice.kb")
    again = open_knowledge_base(tmp_path / "slice.kb")
    assert len(again) == len(base) == len(LINES)
    assert [again.get(id) for id in BY_ID] == [base.get(id) for id in BY_ID]
    assert [again.complete(letter) for letter in "abcxyz"] == [base.complete(letter) for letter in "abcxyz"]
    again.close()


def test_everything_has_a_type_a_description_and_a_prominence() -> None:
    assert [line["id"] for line in LINES if not (line.get("types") and line.get("description"))] == []
    assert [line["id"] for line in LINES if not 0 < line["prominence"] < 1] == []


@pytest.mark.parametrize("key", ["wikidata_id", "dbpedia_uri"])
def test_no_two_things_are_the_same_elsewhere(key: str) -> None:
    counted = Counter(line[key] for line in LINES if key in line)
    assert [id for id, count in counted.items() if count > 1] == []


def references(*keys: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for line in LINES:
        for key in keys:
            for value in line.get("properties", {}).get(key, []):
                if value in BY_ID:
                    yield line["id"], BY_ID[value]


def test_what_lies_or_happens_somewhere_lies_in_places() -> None:
    keys = "birth_place", "headquarters", "country", "part_of", "capital", "capital_of", "continent", "location"
    assert [(id, thing["id"]) for id, thing in references(*keys) if "place" not in thing["types"]] == []


def test_works_are_made_by_persons_or_bands() -> None:
    keys = "author", "director", "composer", "performer", "creator"
    makers = {"person", "organisation"}
    assert [(id, thing["id"]) for id, thing in references(*keys) if not makers & set(thing["types"])] == []


def test_capitals_are_of_their_countries(base: SqliteKnowledgeBase) -> None:
    for line in LINES:
        for capital in line.get("properties", {}).get("capital", []):
            if capital in BY_ID and "capital_of" in BY_ID[capital]["properties"]:
                assert line["id"] in BY_ID[capital]["properties"]["capital_of"]
    germany = base.get("germany")
    assert germany is not None
    assert germany.properties["capital"] == ({"id": "berlin", "label": "Berlin"},)
    assert germany.properties["iso_country_code"] == ("DE",)
    assert germany.wikidata_id == "Q183"


def test_countries_have_codes_that_are_theirs_alone() -> None:
    codes = Counter(code for line in LINES for code in line.get("properties", {}).get("iso_country_code", []))
    assert set(codes.values()) == {1}
    assert len(codes) >= 195


def test_nobody_dies_before_being_born() -> None:
    def year(date: str) -> int:
        return int("-" + date[1:].split("-")[0] if date.startswith("-") else date.split("-")[0])

    for line in LINES:
        properties = line.get("properties", {})
        for first, last in (("birth_date", "death_date"), ("start_date", "end_date")):
            if first in properties and last in properties:
                years = year(properties[last][0]) - year(properties[first][0])
                assert 0 <= years <= (110 if first == "birth_date" else 150), line["id"]


def test_every_type_and_most_properties_are_in_it() -> None:
    types = Counter(each for line in LINES for each in line["types"])
    assert {each: types[each] >= 60 for each in EntityType} == dict.fromkeys(EntityType, True)
    used = {key for line in LINES for key in line.get("properties", {})}
    assert used <= set(catalogue())
    assert len(used) >= 20


@pytest.mark.parametrize(
    "name", ["Springfield", "Cambridge", "Georgia", "Mercury", "Paris", "Michael Jordan", "Apple", "Washington"]
)
def test_names_that_mean_several_things_find_them_all(base: SqliteKnowledgeBase, name: str) -> None:
    called = [line["id"] for line in LINES if name in (line["name"], *line.get("aliases", []))]
    assert len(called) >= 3
    assert set(called) <= {thing.id for thing in base.search(name)}


def test_things_of_a_name_differ_in_what_is_said_of_them() -> None:
    seen = Counter((line["name"], line["description"]) for line in LINES)
    assert [said for said, count in seen.items() if count > 1] == []


def test_the_file_ends_as_files_do() -> None:
    assert Path(SLICE).read_bytes().endswith(b"}\n")
