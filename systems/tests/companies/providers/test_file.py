"""A file of companies, with its index."""

import csv
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rowmill as rm
from rowmill_systems.companies.providers import file as file_module
from rowmill_systems.companies.providers import file_index, file_rows
from rowmill_systems.companies.providers.file import FileProvider
from rowmill_systems.companies.providers.file_index import tokens
from rowmill_systems.parts.sheets import BadSheet
from systems.tests.companies.providers.conformance import (
    COMPANIES,
    LARGE,
    PLANTED_NAME,
    Clock,
    Opened,
    ProviderConformance,
    code,
    ids,
)

GLEIF = {
    "LEI": "529900W18LQJJN6SJ336", "Entity.LegalName": "Société Générale Effekten GmbH",
    "Entity.LegalName.xmllang": "de", "Entity.OtherEntityNames.OtherEntityName.1": "LT Industriebeteiligungs GmbH",
    "Entity.OtherEntityNames.OtherEntityName.1.type": "PREVIOUS_LEGAL_NAME",
    "Entity.TransliteratedOtherEntityNames.TransliteratedOtherEntityName.1": "Sosiete Zheneral",
    "Entity.LegalAddress.City": "Frankfurt am Main", "Entity.LegalAddress.Country": "DE",
    "Entity.EntityStatus": "ACTIVE", "Registration.RegistrationStatus": "ISSUED",
}  # fmt: skip


def write(path: Path, *rows: dict[str, str], encoding: str = "utf-8", delimiter: str = ",") -> Path:
    with path.open("w", encoding=encoding, newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return path


def company(company_id: str, name: str, **others: str) -> dict[str, str]:
    return {"company_id": company_id, "name": name, **others}


def searched(provider: FileProvider, *names: str) -> list[Any]:
    def spend() -> None:
        raise AssertionError("a file costs no call")

    return [ids(answer) for answer in provider.search(names, spend)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "companies.csv"


@pytest.fixture
def opened(path: Path) -> Iterator[Opened]:
    write(path, *(company(each.company_id, each.name, former_name=each.former_name) for each in COMPANIES))
    provider = FileProvider(path)
    yield Opened(provider, Clock())
    provider.close()


class TestFile(ProviderConformance):
    """Held to what every provider must do."""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("SIEMENS AG", "C1"),
        ("ＳＩＥＭＥＮＳ  ag", "C1"),
        ("Simens AG", "C1"),
        ("Siemens", "C1"),
        ("Energy Siemens", "C2"),
        ("华为科技有限公司", "C3"),
        ("Mueller & Soehne GmbH", "C6"),
        ("Nordwnid Logistik", "C7"),
        ("Südwind Spedition GmbH", "C7"),
    ],
)
def test_similar_names_are_candidates(opened: Opened, name: str, expected: str) -> None:
    (found,) = opened.search(name)
    assert expected in ids(found)


def test_a_misspelt_word_finds_its_company_by_itself(path: Path) -> None:
    write(path, company("1", "Kaleidoskop"), company("2", "Kalender"), company("3", "Teleskop"))
    provider = FileProvider(path)
    assert searched(provider, "Kaleidoksop", "Kaleydoskop", "Kaleidoscope", "Xylophon") == [["1"], ["1"], ["1"], []]
    provider.close()


def test_exact_names_are_found_alone_and_all_of_them(path: Path) -> None:
    write(
        path,
        company("1", "Acme Ltd"),
        company("2", "ACME  LTD."),
        company("3", "Acme Trading Ltd"),
        company("4", "Acm"),
    )
    provider = FileProvider(path)
    assert searched(provider, "acme ltd") == [["1", "2"]]
    provider.close()


def test_a_company_in_several_rows_is_one_candidate_with_all_its_names(path: Path) -> None:
    write(path, company("1", "Acme Ltd"), company("1", "Acme  LTD"), company("2", "Other"))
    provider = FileProvider(path)
    ((found,),) = provider.search(["Acme Ltd"], lambda: None)  # type: ignore[misc]
    assert (found.company_id, found.name, found.other_names) == ("1", "Acme Ltd", ("Acme LTD",))
    provider.close()


def test_gleif_is_recognised(path: Path) -> None:
    duplicate = GLEIF | {"LEI": "2" * 20, "Registration.RegistrationStatus": "DUPLICATE"}
    write(path, GLEIF, duplicate)
    provider = FileProvider(path)
    names = ["société générale effekten gmbh", "LT Industriebeteiligungs GmbH", "Sosiete Zheneral"]
    assert searched(provider, *names) == [[GLEIF["LEI"]]] * 3
    ((found,),) = provider.search(names[:1], lambda: None)  # type: ignore[misc]
    assert found.details == {"city": "Frankfurt am Main", "country": "DE", "status": "ACTIVE"}
    assert provider.report is not None
    assert provider.report.skipped == {"void": 1}
    provider.close()


def test_columns_can_be_named(path: Path) -> None:
    write(path, {"Nummer": "1", "Firma": "Acme", "Früher": "Alpha|Beta", "Kurz": "AC", "Ort": "Köln"})
    columns = {"id": "nummer", "name": "Firma", "other_names": "Früher, Kurz", "details": "Ort"}
    provider = FileProvider(path, columns=columns)
    assert searched(provider, "Acme", "Alpha", "Beta", "AC") == [["1"]] * 4
    ((found,),) = provider.search(["Acme"], lambda: None)  # type: ignore[misc]
    assert found.details == {"Ort": "Köln"}
    provider.close()


@pytest.mark.parametrize(
    ("encoding", "delimiter"), [("utf-8-sig", ","), ("cp1252", ";"), ("utf-16", "\t"), ("gb18030", "|")]
)
def test_any_encoding_and_delimiter_can_be_read(path: Path, encoding: str, delimiter: str) -> None:
    name = "北京华为技术有限公司" if encoding == "gb18030" else "Müller & Söhne Straßenbau GmbH"
    rows = [company(str(number), f"{name} {number}") for number in range(40)]
    write(path, *rows, encoding=encoding, delimiter=delimiter)
    provider = FileProvider(path)
    assert searched(provider, f"{name} 7") == [["7"]]
    provider.close()


@pytest.mark.parametrize(
    ("content", "columns", "message"),
    [
        ("a,b\n1,2\n", None, "WDH_COMPANIES_COLUMNS"),
        ("id,title\n1,2\n", None, "no column is known to hold the names"),
        ("id,name\n1,2\n", {"id": "id", "name": "firma"}, "no column firma. It has: id, name"),
        ("id,name\n1,2\n", {"name": "name"}, "needs both columns"),
        ("id,name\n1,2\n", {"id": "id", "name": "name", "nmae": "x"}, "nmae. It may have: id, name"),
        ("id,name,name\n1,2,3\n", None, "several columns name. Give them different names"),
        ('id,name\n1,"Acme\n2,Beta\n', None, "quote that is not closed"),
        ("id,name\n1," + "x" * 3_000_000 + "\n", None, "line 2 is not CSV"),
        ("", None, "it is empty"),
    ],
)
def test_a_file_that_can_not_be_used_says_how_to_mend_it(
    path: Path, content: str, columns: dict[str, str] | None, message: str
) -> None:
    path.write_text(content)
    provider = FileProvider(path, columns=columns)
    with pytest.raises(BadSheet, match=message.replace(".", r"\.")):
        provider.prepare()
    assert os.listdir(path.parent) == [path.name], "nothing half made is left"
    assert [code(answer) for answer in provider.search(["Acme"], lambda: None)] == ["companies_file"]
    provider.close()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PK\x03\x04 a workbook", "spreadsheet"),
        (b"\x1f\x8b packed", "Unpack it"),
        (bytes(range(256)) * 100, "not text"),
        (b"PAR1 and nothing else", "no Parquet file that can be read"),
    ],
)
def test_a_file_of_another_format_is_refused(path: Path, content: bytes, message: str) -> None:
    path.write_bytes(content)
    with pytest.raises(BadSheet, match=message):
        FileProvider(path).prepare()


def test_a_packed_gleif_file_is_no_spreadsheet(tmp_path: Path) -> None:
    path = tmp_path / "golden-copy.csv.zip"
    path.write_bytes(b"PK\x03\x04 packed")
    with pytest.raises(BadSheet, match="Unpack it"):
        FileProvider(path).prepare()


def test_a_file_that_is_not_there_is_an_error_and_no_unknown_name(tmp_path: Path) -> None:
    provider = FileProvider(tmp_path / "none.csv")
    answers = provider.search(["Acme", "Beta"], lambda: None)
    assert [code(answer) for answer in answers] == ["companies_file"] * 2
    assert isinstance(answers[0], rm.TransientError)
    with pytest.raises(BadSheet, match="WDH_COMPANIES_FILE"):
        provider.prepare()
    with pytest.raises(BadSheet, match="is no file"):
        FileProvider(tmp_path).prepare()


def test_rows_that_are_no_companies_are_left_out_and_counted(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.write_text(
        f"id,name,alias\n1,Acme,\n,{PLANTED_NAME},\n3,,\n4,{PLANTED_NAME * 90_000},\n5,a,b,c,d\n6,Beta,{'x' * LARGE}\n"
        f"{'7' * 101},Gamma,\n"
    )
    provider = FileProvider(path)
    provider.prepare()
    assert provider.report is not None
    assert provider.report.rows == 7
    assert provider.report.skipped == {"no_id": 1, "no_name": 1, "long_name": 1, "broken": 1, "long_id": 1}
    assert provider.report.skipped_lines == (3, 4, 5, 6, 8)
    assert searched(provider, "Acme", "Beta") == [["1"], ["6"]]
    assert "7 rows, 5 left out" in caplog.text
    assert PLANTED_NAME not in caplog.text
    provider.close()


def test_a_file_without_a_header_shows_no_name_in_errors_of_lookups(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path.write_text(f"1,{PLANTED_NAME} Ltd\n2,Acme\n")
    (answer,) = FileProvider(path).search(["Acme"], lambda: None)
    assert code(answer) == "companies_file"
    assert PLANTED_NAME not in f"{answer} {answer!r} {caplog.text}"


def built(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return a list that gets a path for every index that is made."""
    found: list[Path] = []
    build = file_index.build_index

    def counted(path: Path, companies: Any) -> None:
        found.append(path)
        build(path, companies)

    monkeypatch.setattr(file_module, "build_index", counted)
    return found


def test_the_index_is_made_once_and_again_when_the_file_changes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = built(monkeypatch)
    write(path, company("1", "Acme"))
    provider = FileProvider(path)
    for _ in range(2):
        assert searched(provider, "Acme", "Beta") == [["1"], []]
    other = FileProvider(path)
    assert searched(other, "Acme") == [["1"]]
    assert len(made) == 1, "another one takes the index that is there"
    write(path, company("1", "Acme"), company("2", "Beta"))
    assert searched(provider, "Beta") == searched(other, "Beta") == [["2"]]
    assert len(made) == 2
    provider.close()
    other.close()


def test_the_same_size_at_another_time_is_told_by_its_content(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = built(monkeypatch)
    write(path, company("1", "Acme"))
    provider = FileProvider(path)
    assert searched(provider, "Acme") == [["1"]]
    os.utime(path, (1, 1))
    assert searched(provider, "Acme") == [["1"]]
    assert len(made) == 1, "touched"
    write(path, company("1", "Beta"))
    assert searched(provider, "Beta") == [["1"]]
    assert len(made) == 2, "changed"
    provider.close()


def test_other_columns_or_another_normalisation_make_it_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = built(monkeypatch)
    write(path, {"id": "1", "name": "Acme", "title": "Beta"})
    assert searched(FileProvider(path), "Acme") == [["1"]]
    assert searched(FileProvider(path, columns={"id": "id", "name": "title"}), "Beta", "Acme") == [["1"], []]
    assert len(made) == 2
    monkeypatch.setattr(file_module, "normalizer_mark", lambda: "another")
    assert searched(FileProvider(path, columns={"id": "id", "name": "title"}), "Beta") == [["1"]]
    assert len(made) == 3


def test_a_broken_index_is_made_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = built(monkeypatch)
    write(path, company("1", "Acme"))
    FileProvider(path).prepare()
    index = path.with_name(f"{path.name}.index.sqlite")
    for content in (b"", b"not a database, but as long as one" * 100):
        index.write_bytes(content)
        assert searched(FileProvider(path), "Acme") == [["1"]]
    assert len(made) == 3


def test_a_file_that_is_broken_later_is_an_error_until_it_is_mended(path: Path) -> None:
    write(path, company("1", "Acme"))
    provider = FileProvider(path)
    assert searched(provider, "Acme") == [["1"]]
    path.write_text("nothing,of\nthe,kind\n")
    assert [code(answer) for answer in provider.search(["Acme"], lambda: None)] == ["companies_file"]
    write(path, company("9", "Acme"))
    assert searched(provider, "Acme") == [["9"]]
    provider.close()


def test_the_index_goes_where_it_can_be_written(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(path, company("1", "Acme"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda *_: False)
        FileProvider(path).prepare()
    assert len(list((tmp_path / "cache" / "rowmill" / "companies").glob("companies-*.index.sqlite"))) == 1
    FileProvider(path, index_dir=tmp_path / "given" / "folder").prepare()
    assert len(list((tmp_path / "given" / "folder").glob("companies-*.index.sqlite"))) == 1
    assert not path.with_name(f"{path.name}.index.sqlite").exists()


def test_an_index_that_can_not_be_written_says_what_to_set(path: Path, tmp_path: Path) -> None:
    write(path, company("1", "Acme"))
    (tmp_path / "taken").write_text("a file, and no folder")
    with pytest.raises(BadSheet, match="WDH_COMPANIES_INDEX_DIR"):
        FileProvider(path, index_dir=tmp_path / "taken" / "folder").prepare()


def test_progress_is_shown(path: Path) -> None:
    write(path, *(company(str(number), f"Company {number}") for number in range(2500)))
    seen: list[tuple[int, float]] = []
    FileProvider(path).prepare(lambda rows, share: seen.append((rows, share)))
    assert [rows for rows, _ in seen] == [1000, 2000, 2500]
    assert [share for _, share in seen] == sorted(share for _, share in seen)
    assert seen[-1][1] == 1.0


def test_a_search_waits_for_the_index_that_another_thread_makes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = built(monkeypatch)
    write(path, *(company(str(number), f"Company {number}") for number in range(3000)))
    provider = FileProvider(path)
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.extend(searched(provider, "Company 7"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [["7"]] * 4
    assert len(made) == 1
    provider.close()


@pytest.mark.parametrize("library", ["pyarrow", "polars"])
def test_parquet_is_read_by_either_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    polars = pytest.importorskip("polars")
    pytest.importorskip(library)
    other = {"pyarrow": "polars", "polars": "pyarrow"}[library]
    monkeypatch.setattr(file_rows, "find_spec", lambda name: None if name == other else name)
    monkeypatch.setattr(file_rows, "PARQUET_ROWS", 3)
    names = [f"Company {number}" for number in range(10)]
    aliases = [[f"Alias {number}", f"Other {number}"] if number % 2 else None for number in range(10)]
    path = tmp_path / "companies.parquet"
    polars.DataFrame({"extra": range(10), "id": range(10), "name": names, "aliases": aliases}).write_parquet(path)
    provider = FileProvider(path)
    shares: list[float] = []
    provider.prepare(lambda rows, share: shares.append(share))
    assert searched(provider, "company 7", "Alias 3", "Other 9") == [["7"], ["3"], ["9"]]
    assert shares == [1.0]
    provider.close()


def test_parquet_without_a_library_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_rows, "find_spec", lambda name: None)
    path = tmp_path / "companies.parquet"
    path.write_bytes(b"PAR1....")
    with pytest.raises(BadSheet, match="pip install pyarrow"):
        FileProvider(path).prepare()


def test_names_of_common_words_alone_are_found(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_index, "MOST_READ", 5)
    pairs = [("Alpha", "Beta"), ("Beta", "Gamma"), ("Alpha", "Gamma")]
    write(
        path,
        *(company(f"{one}{other}{number}", f"{one} {other} {number}") for one, other in pairs for number in range(9)),
    )
    provider = FileProvider(path)
    (found,) = searched(provider, "Gamma Beta")
    assert set(found) == {f"BetaGamma{number}" for number in range(9)}
    provider.close()


def test_an_index_that_breaks_is_an_error_and_no_unknown_name(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(path, company("1", "Acme"))
    provider = FileProvider(path)
    provider.prepare()

    def broken(name: str) -> Any:
        raise sqlite3.DatabaseError(f"malformed {name}")

    monkeypatch.setattr(provider._index, "search", broken)
    (answer,) = provider.search([PLANTED_NAME], lambda: None)
    assert code(answer) == "companies_index"
    assert PLANTED_NAME not in f"{answer!r} {answer}"
    provider.close()


def test_words_and_pairs_of_characters_are_what_is_searched_for() -> None:
    assert tokens("siemens energy ag") == ["siemens", "energy", "ag"]
    assert tokens("华为技术 abc 株") == ["华为", "为技", "技术", "abc", "株"]


MEASURE = """
import sys
import psutil
from rowmill_systems.companies.providers.file import FileProvider
provider, process, sizes = FileProvider(sys.argv[1]), psutil.Process(), []
sizes.append(process.memory_info().rss)  # not ru_maxrss: a child begins with that of its parent
provider.prepare(lambda rows, share: sizes.append(process.memory_info().rss))
print(provider.report.rows, len(sizes) - 1, (max(sizes) - sizes[0]) // 1024**2)
"""


@pytest.mark.slow
def test_a_large_file_is_indexed_in_bounded_memory(path: Path) -> None:
    """A file of 80,000 companies has 38 MB: it is never in memory as a whole."""

    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["company_id", "name", "comment"])
        for number in range(80_000):
            writer.writerow([number, f"Company {number % 977} of {number} Street Holding", "x" * 430])
    assert path.stat().st_size > 35 * 1024**2
    ended = subprocess.run([sys.executable, "-c", MEASURE, str(path)], capture_output=True, text=True, check=True)
    rows, calls, megabytes = map(int, ended.stdout.split())
    assert (rows, calls) == (80_000, 81)
    assert megabytes < 10
