"""Topics: ours, and those of a team's own file."""

from pathlib import Path

import pytest

import rowmill as rm
from rowmill_systems.articles.classifying.taxonomy import load_taxonomy


def test_our_topics_are_granular_and_in_five_languages() -> None:
    ours = load_taxonomy()

    assert len(ours.groups) >= 12
    assert len(ours.topics) >= 60
    assert ours.languages == ("en", "de", "es", "fr", "it")
    assert "technology.ai" in ours.topics
    assert all(key.split(".")[0] in ours.groups for key in ours.topics)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("technology.ai", ("technology.ai",)),
        ("Fußball", ("sport.football",)),
        ("STYLE & BEAUTY", ("lifestyle.fashion",)),
        ("tennis", ("sport.tennis",)),
        ("unheard of", ()),
    ],
)
def test_a_topic_is_found_by_key_label_alias_and_last_part(name: str, found: tuple[str, ...]) -> None:
    assert load_taxonomy().find(name) == found


@pytest.mark.parametrize("name", ["sport", "Sports", "Deportes"])
def test_a_group_stands_for_all_of_its_topics(name: str) -> None:
    found = load_taxonomy().find(name)

    assert len(found) > 10
    assert all(key.startswith("sport.") for key in found)


def write(folder: Path, text: str | bytes) -> Path:
    file = folder / "own.toml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def test_a_file_of_a_team_may_be_short(tmp_path: Path) -> None:
    own = load_taxonomy(
        write(tmp_path, '[topics.wind]\ndescription = "wind farm"\n[topics.sun]\ndescription = "solar"\n')
    )

    assert list(own.topics) == ["wind", "sun"]
    assert own.groups == {}
    assert own.languages == ("en",)
    assert own.topics["wind"].label() == "Wind"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it has no topics. Write one as"),
        ("topics = 3", "it has no topics"),
        ("[topics.a", "it is not TOML"),
        (b"[topics.a]\ndescription = '\xff'", "it is not UTF-8. Save it"),
        ("\n[topics.Big]\ndescription = 'x'", "line 2: Big: a key has small letters"),
        ("[topics.a]\n", "line 1: a: it has no description"),
        ("[topics.a]\ndescription = 3", "a: description is no text"),
        ("[topics.a]\ndescription = ' '", "a: description is no text"),
        ("[topics.a]\nen = { label = 'x' }", '"en" has to be { label'),
        ("[topics.a]\ndescription='x'\n[topics.a.below]\ndescription = 'x'", 'written as [topics."a.below"]'),
        ("[topics.a]\ndescription = 'x'\naliases = 'y'", "aliases is no list of texts"),
        ("[topics.a]\ndescription = 'x'\nincludes = ['nothing']", "includes nothing, which is no topic of ours"),
        ("[topics.a]\ndescription = 'x y'\n[topics.b]\ndescription = 'X, y'", "line 3: b: it is described like a"),
        ("[topics.a]\ndescription = 'x'\n[other]\n", 'line 3: "other" is not known'),
        ("[topics.a]\ndescription = 'x'\n[no_topic]\ntexts = 'y'", "no_topic is no table with texts"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line_and_the_fix(text: str | bytes, said: str, tmp_path: Path) -> None:
    file = write(tmp_path, text)

    with pytest.raises(rm.errors.DeclarationError) as caught:
        load_taxonomy(file)

    assert said in str(caught.value)
    assert "own.toml" in str(caught.value)


def test_all_problems_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    file = write(tmp_path, "[topics.A]\ndescription = 'x'\n[topics.b]\n[topics.c]\ndescription = 4\n")

    with pytest.raises(rm.errors.DeclarationError) as caught:
        load_taxonomy(file)

    assert len(caught.value.problems) == 3


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(rm.errors.DeclarationError, match="it can't be read"):
        load_taxonomy(tmp_path / "none.toml")
