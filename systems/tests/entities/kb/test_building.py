"""From a file of somebody's to a knowledge base, or to a message that says what to mend."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from rowmill_systems.entities.kb.base import open_knowledge_base
from rowmill_systems.entities.kb.build import BuildReport, build
from rowmill_systems.entities.kb.errors import BadKnowledgeBase
from rowmill_systems.parts.names.types import EntityType
from systems.tests.entities.kb.sample_kbs import built, written

ADA: dict[str, Any] = {
    "id": "ada",
    "name": "Ada Lovelace",
    "types": ["person"],
    "aliases": ["Augusta Ada King", "ADA LOVELACE"],
    "description": "mathematician",
    "prominence": 0.7,
    "properties": {"birth_date": "1815-12-10", "birth_place": "london", "occupation": ["mathematician", "writer"]},
    "wikidata_id": "Q7259",
    "dbpedia_uri": "http://dbpedia.org/resource/Ada_Lovelace",
}
LONDON: dict[str, Any] = {"id": "london", "name": "London"}


def mistakes(source: Path) -> str:
    with pytest.raises(BadKnowledgeBase) as raised:
        build(source, source.with_suffix(".kb"))
    return str(raised.value)


def test_a_thing_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    ada = built(tmp_path, ADA, LONDON).get("ada")
    assert ada is not None
    assert (ada.name, ada.types, ada.description, ada.prominence) == (
        "Ada Lovelace", frozenset({EntityType.PERSON}), "mathematician", 0.7,
    )  # fmt: skip
    assert ada.aliases == ("Augusta Ada King", "ADA LOVELACE")
    assert (ada.wikidata_id, ada.dbpedia_uri) == ("Q7259", "http://dbpedia.org/resource/Ada_Lovelace")


def test_a_thing_is_referred_to_by_its_id_and_others_by_a_label(tmp_path: Path) -> None:
    ada = built(tmp_path, ADA, LONDON).get("ada")
    assert ada is not None
    assert ada.properties == {
        "birth_date": ("1815-12-10",),
        "birth_place": ({"id": "london", "label": "London"},),
        "occupation": ({"label": "mathematician"}, {"label": "writer"}),
    }


def test_all_but_an_id_and_a_name_can_be_left_out(tmp_path: Path) -> None:
    london = built(tmp_path, LONDON).get("london")
    assert london is not None
    assert (london.types, london.aliases, london.properties, london.wikidata_id) == (frozenset(), (), {}, None)


def test_the_report_counts_things_and_names(tmp_path: Path) -> None:
    target = tmp_path / "made.kb"
    assert build(written(tmp_path, ADA, LONDON), target) == BuildReport(2, 3, target.stat().st_size)


def test_it_is_told_how_far_it_is(tmp_path: Path) -> None:
    heard: list[int] = []
    many = [{"id": str(number), "name": f"Thing {number}"} for number in range(2500)]
    build(written(tmp_path, *many), tmp_path / "made.kb", heard.append)
    assert heard == [1000, 2000, 2500]


def test_csv_says_the_same_as_json_lines(tmp_path: Path) -> None:
    source = tmp_path / "things.csv"
    source.write_text(
        "\ufeffid,name,types,aliases,description,prominence,birth_date,birth_place,occupation,wikidata_id,dbpedia_uri\n"
        'ada,Ada Lovelace,person,"Augusta Ada King | ADA LOVELACE",mathematician,0.7,1815-12-10,london,'
        "mathematician|writer,Q7259,http://dbpedia.org/resource/Ada_Lovelace\n"
        "\n"
        "london,London,,,,,,,,,\n",
        "utf-8",
    )
    build(source, tmp_path / "csv.kb")
    from_csv, from_json = open_knowledge_base(tmp_path / "csv.kb"), built(tmp_path, ADA, LONDON)
    assert [from_csv.get(id) for id in ("ada", "london")] == [from_json.get(id) for id in ("ada", "london")]


def test_numbers_amounts_and_places_of_csv_are_read(tmp_path: Path) -> None:
    source = tmp_path / "places.csv"
    source.write_text('id,name,population,area,coordinates\nb,Berlin,3769495,891.7 km2,"52.52, 13.4"\n', "utf-8")
    build(source, tmp_path / "made.kb")
    berlin = open_knowledge_base(tmp_path / "made.kb").get("b")
    assert berlin is not None
    assert berlin.properties == {
        "population": (3769495,),
        "area": ({"amount": 891.7, "unit": "km2"},),
        "coordinates": ({"lat": 52.52, "lon": 13.4},),
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": ""}, "id must be a text"),
        ({"id": 7}, "id must be a text"),
        ({"name": None}, "name must be a text"),
        ({"name": "x" * 501}, "name must be a text of at most 500 signs"),
        ({"name": "half \ud800"}, "name must be a text"),
        ({"types": ["animal"]}, "types must be of person, organisation"),
        ({"types": [[]]}, "types must be of person, organisation"),
        ({"aliases": "Ada"}, "aliases must be a list of texts"),
        ({"aliases": ["a"] * 1001}, "1000 aliases at the most"),
        ({"prominence": 1.5}, "prominence must be a number from 0 to 1"),
        ({"prominence": True}, "prominence must be a number from 0 to 1"),
        ({"description": 3}, "description must be a text"),
        ({"alias": "Ada"}, "unknown alias; known are id, name"),
        ({"wikidata_id": "7259"}, "wikidata_id must look like Q7259"),
        ({"dbpedia_uri": "Ada_Lovelace"}, "dbpedia_uri must look like http://dbpedia.org/resource/Ada_Lovelace"),
        ({"properties": []}, "properties must be an object"),
        ({"properties": {"shoe_size": 38}}, "unknown properties: shoe_size"),
        ({"properties": {"birth_date": "10.12.1815"}}, "birth_date must be a date as 1815-12-10"),
        ({"properties": {"birth_date": ["1815", "1816"]}}, "birth_date can have one value"),
        ({"properties": {"population": 5}}, "population is of place alone"),
        ({"types": ["place"], "properties": {"population": "many"}}, "population must be a number"),
        ({"types": ["place"], "properties": {"area": 5}}, "area must be an amount as"),
        ({"types": ["place"], "properties": {"coordinates": {"lat": 91, "lon": 0}}}, "coordinates must be a place as"),
        ({"properties": {"birth_place": {"id": "london"}}}, "birth_place must be the id of a thing"),
        ({"properties": {"website": "javascript:alert(1)"}}, "website must be an address"),
    ],
)
def test_what_is_wrong_with_a_line_is_said(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    said = mistakes(written(tmp_path, LONDON, {"id": "ada", "name": "Ada", "types": ["person"]} | change))
    assert message in said
    assert "line 2: " in said


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "it is not JSON"),
        (b"[]", "it is not an object"),
        (b'{"id": "x", "name": "x", "prominence": NaN}', "it is not JSON"),
        (b"[" * 100_000, "it is not JSON"),
        (b'{"id": "\xff"}', "it is not UTF-8"),
        (b'"' + b"x" * 1_000_001, "it is longer than 1000000 bytes"),
    ],
)
def test_lines_that_are_no_json_are_named(tmp_path: Path, line: bytes, message: str) -> None:
    source = tmp_path / "things.jsonl"
    source.write_bytes(b'\xef\xbb\xbf{"id": "a", "name": "A"}\n\n' + line + b"\n")
    said = mistakes(source)
    assert f"line 3: {message}" in said
    assert "line 1" not in said


def test_all_mistakes_of_a_line_are_said_at_once(tmp_path: Path) -> None:
    said = mistakes(written(tmp_path, {"id": "", "prominence": 2, "properties": {"x": 1}}))
    assert all(part in said for part in ("id must", "name must", "prominence must", "unknown properties"))


def test_twenty_bad_lines_are_enough(tmp_path: Path) -> None:
    said = mistakes(written(tmp_path, *[{"id": str(number)} for number in range(50)]))
    assert said.count("name must be") == 20
    assert "line 20:" in said
    assert "line 21:" not in said


def test_an_id_that_comes_twice_is_refused_with_both_lines(tmp_path: Path) -> None:
    assert "line 3: it has the id of line 1" in mistakes(written(tmp_path, LONDON, ADA, LONDON))


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    assert "it has no things" in mistakes(written(tmp_path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,title\n", "line 1: column 2, no column name."),
        ("id,name,name\n", "line 1: a second name."),
        ("id,name\na,A,more\n", "line 2: it has 3 cells, and the first line 2"),
        ('id,name\na,"A\nB"\nb\n', "line 4: it has 1 cells"),
        ('id,name\na,A\nb,"B\n', "line 3: it is not CSV"),
        ("id,name,prominence\na,A,high\n", "line 2: prominence must be a number"),
        ("id,name,population\na,A,12 or so\n", "line 2: population must be a number"),
    ],
)
def test_mistakes_of_csv_are_named(tmp_path: Path, text: str, message: str) -> None:
    source = tmp_path / "things.csv"
    source.write_text(text, "utf-8")
    assert message in mistakes(source)


def test_csv_that_is_not_utf8_is_named_by_its_line(tmp_path: Path) -> None:
    source = tmp_path / "things.csv"
    source.write_bytes("id,name\na,A\nb,Zürich\n".encode("latin-1"))
    assert "line 3: it is not UTF-8" in mistakes(source)


def test_messages_do_not_quote_what_the_file_says(tmp_path: Path) -> None:
    secret = {"id": "a", "name": ["secret"], "description": {"secret": 1}, "properties": {"birth_date": "secret"}}
    assert "secret" not in mistakes(written(tmp_path, secret))


def test_a_source_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadKnowledgeBase, match=r"nowhere\.jsonl: No such file"):
        build(tmp_path / "nowhere.jsonl", tmp_path / "made.kb")


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadKnowledgeBase, match=r"nowhere can't be written to: No such file"):
        build(written(tmp_path, ADA), tmp_path / "nowhere" / "made.kb")


def test_a_bad_source_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "made.kb"
    build(written(tmp_path, LONDON), target)
    before = target.read_bytes()
    with pytest.raises(BadKnowledgeBase):
        build(written(tmp_path, LONDON, LONDON), target)
    assert target.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made.kb", "things.jsonl"]


def test_whoever_reads_the_old_file_goes_on_with_it(tmp_path: Path) -> None:
    target = tmp_path / "made.kb"
    build(written(tmp_path, LONDON), target)
    old = open_knowledge_base(target)
    build(written(tmp_path, ADA), target)
    new = open_knowledge_base(target)
    assert [thing.id for thing in old.search("London")] == ["london"]
    assert [thing.id for thing in new.search("Ada Lovelace")] == ["ada"]


@pytest.mark.parametrize("content", [b"", b"not a database at all, but long enough to have a header" * 20])
def test_a_file_that_is_no_database_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.kb"
    path.write_bytes(content)
    with pytest.raises(BadKnowledgeBase, match=r"is no knowledge base\. Make one of"):
        open_knowledge_base(path)


def test_another_database_is_refused(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "other.db")
    connection.execute("CREATE TABLE things (id)")
    connection.close()
    with pytest.raises(BadKnowledgeBase, match="is no knowledge base"):
        open_knowledge_base(tmp_path / "other.db")


def test_another_version_is_refused(tmp_path: Path) -> None:
    built(tmp_path, ADA).close()
    connection = sqlite3.connect(tmp_path / "things.kb")
    connection.execute("PRAGMA user_version = 2")
    connection.close()
    with pytest.raises(BadKnowledgeBase, match="is of version 2, and this Rowmill reads 1"):
        open_knowledge_base(tmp_path / "things.kb")


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadKnowledgeBase, match="is not there"):
        open_knowledge_base(tmp_path / "nowhere.kb")


def test_a_path_with_odd_signs_can_be_opened(tmp_path: Path) -> None:
    folder = tmp_path / "a ?b=c#d %41 ü"
    folder.mkdir()
    assert len(built(folder, LONDON)) == 1


def test_the_file_can_be_read_by_others(tmp_path: Path) -> None:
    built(tmp_path, LONDON).close()
    assert (tmp_path / "things.kb").stat().st_mode & 0o777 == 0o644


def test_json_lines_may_hold_any_script(tmp_path: Path) -> None:
    source = tmp_path / "things.jsonl"
    source.write_text(json.dumps({"id": "東京", "name": "東京", "aliases": ["Токио"]}, ensure_ascii=False), "utf-8")
    build(source, tmp_path / "made.kb")
    made = open_knowledge_base(tmp_path / "made.kb")
    assert [thing.id for thing in made.search("токио")] == ["東京"]
