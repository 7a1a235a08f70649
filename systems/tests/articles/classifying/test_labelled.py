"""Labelled articles of any CSV file."""

from pathlib import Path

import pytest

from rowmill_systems.articles.classifying.labelled import (
    LabelledColumns,
    LabelledFile,
    map_labels,
    parse_map,
    read_labelled,
)
from rowmill_systems.articles.classifying.taxonomy import load_taxonomy
from rowmill_systems.parts.sheets import BadSheet

ROWS = [("sport", "Tennis final", "She won in three sets."), ("food", "Onion soup", "Fry the onions first.")] * 4


def file_of(folder: Path, text: str | bytes) -> Path:
    file = folder / "news.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def csv_of(header: str, delimiter: str = ",") -> str:
    return "\n".join([header] * bool(header) + [delimiter.join(row) for row in ROWS])


def first(found: LabelledFile) -> tuple[tuple[str, ...], str, str]:
    one = found.articles[0]
    return one.labels, one.article.title, one.article.description


FIRST = (("sport",), "Tennis final", "She won in three sets.")


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        (csv_of("category,headline,body"), LabelledColumns()),
        (csv_of("Class Index,Title,Description"), LabelledColumns()),
        (csv_of("a;b;c", ";"), LabelledColumns("a", "b", "c")),
        (csv_of("a,b,c"), LabelledColumns("1", "2", "3")),
        (csv_of(""), LabelledColumns("1", "2", "3")),
        (csv_of("", "\t"), LabelledColumns()),
        (csv_of("a,b,c").encode("utf-16"), LabelledColumns("a", "b", "c")),
    ],
)
def test_columns_are_found_by_name_by_number_and_by_what_is_in_them(
    text: str | bytes, columns: LabelledColumns, tmp_path: Path
) -> None:
    found = read_labelled(file_of(tmp_path, text), columns)

    assert first(found) == FIRST
    assert len(found.articles) == len(ROWS)
    assert found.labels == ("food", "sport")
    assert not found.several


def test_a_cell_may_have_several_labels(tmp_path: Path) -> None:
    file = file_of(tmp_path, 'label,title\n"a; b|a",one\n,two\nc,\n')

    found = read_labelled(file)

    assert [each.labels for each in found.articles] == [("a", "b"), ()]
    assert (found.several, found.skipped) == (True, 1)
    whole = read_labelled(file, LabelledColumns(separators=""))
    assert whole.articles[0].labels == ("a; b|a",)


def test_only_so_many_are_read(tmp_path: Path) -> None:
    assert len(read_labelled(file_of(tmp_path, csv_of("")), most=3).articles) == 3


@pytest.mark.parametrize(
    ("text", "columns", "said"),
    [
        ("", LabelledColumns(), "it is empty"),
        ("label,title\n", LabelledColumns(), "no row with a text"),
        ("a,b\nx,y\nz,w\n", LabelledColumns(), "no column looks like labels"),
        ("label,1\na,2\na,3\n", LabelledColumns("label"), "no column looks like a text"),
        (csv_of("a,b,c"), LabelledColumns("d"), "it has no column d. It has: a, b, c"),
        (csv_of("a,b,c"), LabelledColumns("9"), "it has no column 9. It has 3"),
        (b"PK\x03\x04", LabelledColumns(), "it is a spreadsheet"),
    ],
)
def test_a_file_that_can_not_be_used_is_refused_with_the_fix(
    text: str | bytes, columns: LabelledColumns, said: str, tmp_path: Path
) -> None:
    with pytest.raises(BadSheet) as caught:
        read_labelled(file_of(tmp_path, text), columns)

    assert said in str(caught.value)


def test_labels_are_mapped_by_hand_and_by_name() -> None:
    found, unknown = map_labels(["1", "Sports", "stuff"], load_taxonomy(), parse_map(["1=science.space, health.drugs"]))

    assert found["1"] == ("science.space", "health.drugs")
    assert "sport.tennis" in found["Sports"]
    assert unknown == ("stuff",)


@pytest.mark.parametrize(
    ("options", "said"),
    [(["1"], "is not label=topic"), (["1="], "is not label=topic"), (["2=sport"], "no row has this label. It has: 1"),
     (["1=none"], "there is no such topic. Groups: world, politics")],
)  # fmt: skip
def test_a_wrong_map_is_refused_with_the_fix(options: list[str], said: str) -> None:
    with pytest.raises(BadSheet) as caught:
        map_labels(["1"], load_taxonomy(), parse_map(options))

    assert said in str(caught.value)
