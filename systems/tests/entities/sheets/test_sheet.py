"""CSV as people have it."""

import csv
import io
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowmill_systems.entities.sheets import result
from rowmill_systems.entities.sheets.columns import SheetColumns
from rowmill_systems.parts.sheets.errors import BadSheet
from rowmill_systems.parts.sheets.sheet import Row, Sheet
from rowmill_systems.parts.sheets.target import written
from rowmill_systems.parts.values import harmless


@contextmanager
def sheet_of(content: bytes | str, delimiter: str | None = None) -> Iterator[Sheet]:
    with tempfile.TemporaryFile() as file:
        file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        yield Sheet(file, delimiter)


@pytest.mark.parametrize(
    ("content", "delimiter"),
    [
        ("name,note\nZürich,x\n", ","),
        ("name;note\nZürich;x\n", ";"),
        ("name\tnote\nZürich\tx\n", "\t"),
        ("name|note\nZürich|a,b;c\n", "|"),
        ("name;note\nZürich;a,b,c\nZürich;a,b,c\n", ";"),
        ('name,note\n"Zürich","a;b\nc;d"\n', ","),
        ("\ufeffname,note\r\nZürich,x\r\n", ","),
        ("name,note\rZürich,x\r", ","),
        ("sep=;\r\nname;note\r\nZürich;x\r\n", ";"),
        ("\n\nname,note\n\nZürich\n,,,\n", ","),
        ("name,note\nZürich,x", ","),
        ("name,note\nZürich,x\n" + "Zürich,x\n" * 40_000, ","),
        ("name\nZürich\n", ","),
        ("name\nZürich\nDoe, John\n", ";"),
        (" NAME ,note\n Zürich ,x\n", ","),
        ("name,note\nZürich,x\nx,y\na,b,\n", ","),
    ],
)
def test_the_sign_between_cells_is_found(content: str, delimiter: str) -> None:
    for encoded in (content.encode(), content.removeprefix("\ufeff").encode("utf-16")):
        with sheet_of(encoded) as sheet:
            assert sheet.delimiter == delimiter
            columns = SheetColumns.named(sheet.header, name="name")
            first = next(iter(sheet.rows()))
            assert columns.entity(first, "d")["name"] == "Zürich"


def test_rows_are_known_by_the_lines_where_they_begin() -> None:
    with sheet_of('sep=,\nname,note\n"a\nb",1\n\nc,2\n') as sheet:
        assert [row.line for row in sheet.rows()] == [3, 6]
        assert list(sheet.rows()) == list(sheet.rows()), "it is read as often as wanted"


def test_what_is_missing_at_the_end_of_a_row_is_empty_and_what_is_too_much_is_not() -> None:
    with sheet_of("a,b,c\n1\n1,2,3,,\n") as sheet:
        assert [row.cells for row in sheet.rows()] == [["1", "", ""], ["1", "2", "3"]]
    with sheet_of("a,b,c\n1,2,3,,4\n", ",") as sheet, pytest.raises(BadSheet, match="line 2 has 5 cells"):
        list(sheet.rows())


def test_a_cell_without_an_end_is_refused_in_good_time() -> None:
    with sheet_of("a,b\n1,2\n" + '"' + "x" * 3_000_000, ",") as sheet, pytest.raises(BadSheet, match="line 3 is not"):
        list(sheet.rows())


def test_a_file_that_is_written_to_meanwhile_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("name\nx\n")
    with path.open("rb") as file:
        sheet = Sheet(file)
        sheet.check_unchanged()
        with path.open("a") as more:
            more.write("y\n")
        with pytest.raises(BadSheet, match="changed meanwhile"):
            sheet.check_unchanged()


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ("=1+1", "'=1+1"),
        ("+cmd", "'+cmd"),
        ("-cmd|' /C calc'!A0", "'-cmd|' /C calc'!A0"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("-12.5", "-12.5"),
        ("-0044-03-15", "-0044-03-15"),
        ("-33.86, 151.2", "-33.86, 151.2"),
        ("a=b", "a=b"),
        ("", ""),
    ],
)
def test_no_cell_that_we_add_is_a_formula(cell: str, shown: str) -> None:
    assert harmless(cell) == shown


def test_a_column_that_is_there_already_keeps_its_name() -> None:
    header = ["name", "wikidata_id", "wikidata_id_2 "]
    assert result.names(header, ["born"])[0] == "wikidata_id_3"
    assert result.names(header, ["born"])[-1] == "entity_born"


@given(st.lists(st.tuples(*[st.text(st.characters(codec="utf-8"), max_size=20)] * 2), max_size=20))
def test_whatever_is_written_as_csv_is_read_again(rows: list[tuple[str, str]]) -> None:
    out = io.StringIO(newline="")
    writer = csv.writer(out, quoting=csv.QUOTE_ALL)
    writer.writerows([("name", "note"), *rows])
    with sheet_of(out.getvalue(), ",") as sheet:
        assert [tuple(row.cells) for row in sheet.rows()] == rows


def test_names_that_can_t_be_asked_about_are_told_apart() -> None:
    columns = SheetColumns(name=0)
    assert columns.problem(Row(2, [" \x00"])) == "No name"
    assert columns.problem(Row(2, ["x" * 1001])) == "The name is longer than 1,000 characters"
    assert columns.problem(Row(2, ["x" * 1000])) is None


def test_nothing_of_a_file_is_there_before_all_of_it(tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    target.write_text("old")

    def break_off() -> None:
        with written(target, mark=True) as out:
            out.write("half")
            assert target.read_text() == "old"
            raise LookupError

    with pytest.raises(LookupError):
        break_off()
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]
    assert target.read_text() == "old"
    with written(target, mark=True) as out:
        out.write("whole")
    assert target.read_text() == "\ufeffwhole"
