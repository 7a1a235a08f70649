"""Mapping files: what can be used is imported, what can't is reported with its line and the fix."""

import io

import pytest
import sqlalchemy as sa

from rowmill_systems.companies.mapping_files import (
    MappingFileRefused,
    MappingImport,
    export_mappings,
    import_mappings,
)
from rowmill_systems.companies.mappings import CachedAnswer, CompanyMappingRepository, ConflictGone, alias_of
from rowmill_systems.companies.models import TIERS, MatchType
from rowmill_systems.companies.settings import CompaniesSettings
from rowmill_systems.parts.sheets import BadLine

HEADER = "match_type,alias,company_id\n"


@pytest.fixture
def mappings(connection: sa.Connection, settings: CompaniesSettings) -> CompanyMappingRepository:
    return CompanyMappingRepository(connection, settings)


def imported(mappings: CompanyMappingRepository, text: str, encoding: str = "utf-8") -> MappingImport:
    return import_mappings(mappings, io.BytesIO(text.encode(encoding)))


def found(mappings: CompanyMappingRepository, text: str, match_type: MatchType = "company_name") -> dict[str, str]:
    alias = alias_of(match_type, text)
    tiers = mappings.find_mapped([alias])
    return {name: tier[alias][0] for name, tier in zip(TIERS, tiers, strict=True) if alias in tier}


def test_a_file_is_imported_in_the_form_in_which_names_are_looked_up(mappings: CompanyMappingRepository) -> None:
    report = imported(mappings, HEADER + "company_name,ＡＣＭＥ  Ltd,C1\nplan_code, fp 01 ,C2\nHARDCODE,Beta,C3\n")
    assert (report.lines, report.added, report.bad) == (3, 3, 0)
    assert found(mappings, "acme ltd") == {"company_name": "C1"}
    assert found(mappings, "FP01", "plan_code") == {"plan_code": "C2"}
    assert found(mappings, "beta") == {"hardcode": "C3"}


def test_the_same_file_again_changes_nothing(mappings: CompanyMappingRepository) -> None:
    text = HEADER + "company_name,Acme,C1\ncompany_name,ACME,C1\ncompany_name,Beta,C2\n"
    first, second = imported(mappings, text), imported(mappings, text)
    assert (first.added, first.unchanged, first.conflicts) == (2, 1, 0)
    assert (second.added, second.unchanged, second.conflicts) == (0, 3, 0)


def test_two_ids_for_one_alias_are_kept_for_a_person(mappings: CompanyMappingRepository) -> None:
    imported(mappings, HEADER + "company_name,There,C0\n")
    text = HEADER + "company_name,Acme,C1\ncompany_name,ACME,C2\ncompany_name,There,C3\ncompany_name,Beta,C4\n"
    report = imported(mappings, text)
    assert (report.added, report.conflicts, report.bad) == (2, 2, 0)
    assert imported(mappings, text).conflicts == 2, "they are reported again, and kept once"
    kept = mappings.conflicts()
    assert [(each.alias, each.company_id, each.other_company_id) for each in kept] == [
        (alias_of("company_name", "Acme"), "C1", "C2"),
        (alias_of("company_name", "There"), "C0", "C3"),
    ]
    assert mappings.conflicts(after=kept[0].id) == kept[1:]
    assert found(mappings, "acme") == {"company_name": "C1"}
    assert found(mappings, "beta") == {"company_name": "C4"}
    mappings.resolve_conflict(kept[0].id, "C2")
    assert found(mappings, "acme") == {"company_name": "C2"}
    assert mappings.conflicts() == kept[1:]
    with pytest.raises(ConflictGone, match="List them again"):
        mappings.resolve_conflict(kept[0].id, "C1")


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("nonsense,Acme,C1", "unknown_match_type"),
        ("company_name,,C1", "blank_alias"),
        ("company_name,---,C1", "blank_alias"),
        ("company_name,Acme,", "bad_company_id"),
        (f"company_name,Acme,{'C' * 101}", "bad_company_id"),
        ("company_name,Acme,IN_ABCDEFGHIJKLMNOP", "bad_company_id"),
        ("company_name,Acme", "too_few_cells"),
        ("company_name," + "planted" * 150_000 + ",C1", "alias_too_long"),
        ("plan_code," + "1" * 501 + ",C1", "alias_too_long"),
        ('company_name,"Acme,C1', "not_csv"),
        ('company_name,"Ac"me,C1', "not_csv"),
        ("plan_code,1,C1,eqc", "bad_source"),
        ("company_name,Acme,C1,person", "bad_source"),
        ("company_name,Acme,C1,,2", "bad_confidence"),
        ("company_name,Acme,C1,,viel", "bad_confidence"),
        ("company_name,Acme,C1,,nan", "bad_confidence"),
    ],
)
def test_a_bad_line_is_reported_and_the_others_go_on(mappings: CompanyMappingRepository, line: str, code: str) -> None:
    good = "".join(f"company_name,Good {number},C{number},,\n" for number in range(20))
    text = "match_type,alias,company_id,source,confidence\ncompany_name,First,C0,,0.5\n" + line + "\n" + good
    told: list[BadLine] = []
    report = import_mappings(mappings, io.BytesIO(text.encode()), on_bad_line=told.append)
    assert [(bad.line, bad.code) for bad in report.bad_lines] == [(3, code)]
    assert told == report.bad_lines
    assert "planted" not in repr(report)
    assert (report.lines, report.added, report.bad) == (22, 21, 1)
    assert found(mappings, "good 19") == {"company_name": "C19"}


def test_line_numbers_count_lines_of_the_file(mappings: CompanyMappingRepository) -> None:
    text = HEADER + '\ncompany_name,"Acme\nGroup",C1\n\nwrong,x,y\n'
    report = imported(mappings, text)
    assert [(bad.line, bad.code) for bad in report.bad_lines] == [(6, "unknown_match_type")]
    assert report.added == 1


@pytest.mark.parametrize(
    ("encoding", "delimiter"), [("utf-8-sig", ","), ("utf-16", ";"), ("cp1252", ";"), ("gb18030", "\t")]
)
def test_a_file_in_another_encoding_is_read(mappings: CompanyMappingRepository, encoding: str, delimiter: str) -> None:
    name = "中国石油天然气股份有限公司" if encoding == "gb18030" else "Müller Söhne Großhandel"
    lines = [("match_type", "alias", "company_id")] + [("company_name", f"{name} {number}", "C") for number in range(9)]
    report = imported(mappings, "".join(delimiter.join(line) + "\r\n" for line in lines), encoding)
    assert (report.added, report.bad) == (9, 0)
    imported(mappings, HEADER + f"company_name,{name} 3,C\n")
    assert mappings.connection.scalar(sa.select(sa.func.count()).select_from(mappings.tables.mappings)) == 9


def test_bytes_that_are_not_in_the_encoding_cost_their_line(mappings: CompanyMappingRepository) -> None:
    text = (HEADER + "company_name,Acme planted,C1\ncompany_name,Beta,C2\n").encode("utf-16")
    broken = text.replace("planted".encode("utf-16-le"), b"\x00\xd8p\x00")
    report = import_mappings(mappings, io.BytesIO(broken))
    assert [(bad.line, bad.code) for bad in report.bad_lines] == [(2, "bad_encoding")]
    assert found(mappings, "Beta") == {"company_name": "C2"}


@pytest.mark.parametrize(
    ("content", "fix"),
    [
        (b"", "it is empty. Its first line has to name the columns: match_type, alias, company_id"),
        (b"match_type,name,company_id\nx,y,z\n", "it lacks the column alias. It has: match_type, name, company_id"),
        (b"alias,match_type,company_id,Alias\nx,y,z,a\n", "has alias more than once. Rename"),
        (b"PK\x03\x04 and so on", "it is a spreadsheet. Save it as CSV"),
        (bytes(range(256)) * 20, "it is not text. Save"),
    ],
)
def test_a_file_that_is_none_is_refused_with_the_fix(
    mappings: CompanyMappingRepository, content: bytes, fix: str
) -> None:
    with pytest.raises(MappingFileRefused, match=fix):
        import_mappings(mappings, io.BytesIO(content))


def test_what_is_exported_can_be_imported_again(mappings: CompanyMappingRepository) -> None:
    imported(mappings, "match_type,alias,company_id,confidence\ncompany_name,Acme,C1,0.5\nplan_code,=1+1,@C2,\n")
    mappings.cache_answers([CachedAnswer("beta", "C3", "eqc", 0.9), CachedAnswer("gamma", None, "eqc", 0)])
    out = io.StringIO()
    assert export_mappings(mappings, out) == 2
    assert sorted(out.getvalue().splitlines()[1:]) == [
        f"company_name,{alias_of('company_name', 'Acme')},C1,internal,0.5",
        "plan_code,'=1+1,'@C2,internal,1.0",
    ]
    everything, progress = io.StringIO(), list[int]()
    assert export_mappings(mappings, everything, cached=True, on_progress=progress.append) == 3
    assert progress == [3]
    assert export_mappings(mappings, io.StringIO(), match_types=["plan_code"]) == 1
    mappings.connection.execute(sa.delete(mappings.tables.mappings))
    report = imported(mappings, everything.getvalue())
    assert (report.added, report.bad, report.conflicts) == (3, 0, 0)
    again = io.StringIO()
    export_mappings(mappings, again, cached=True)
    assert sorted(again.getvalue().splitlines()) == sorted(everything.getvalue().splitlines())
    assert mappings.find_known(["beta"])["beta"].cached == CachedAnswer("beta", "C3", "eqc", 0.9)


def test_another_confidence_and_a_newer_answer_replace_the_old(mappings: CompanyMappingRepository) -> None:
    header = "match_type,alias,company_id,source,confidence\n"
    imported(mappings, header + "company_name,Acme,C1,,1\ncompany_name,Beta,C2,eqc,1\n")
    report = imported(mappings, header + "company_name,Acme,C1,,0.5\ncompany_name,Beta,C3,eqc,0.8\n")
    assert (report.added, report.changed, report.conflicts) == (0, 2, 0)
    acme, beta = alias_of("company_name", "Acme"), alias_of("company_name", "Beta")
    assert mappings.find_mapped([acme])[-1] == {acme: ("C1", 0.5)}
    assert mappings.find_known([beta])[beta].cached == CachedAnswer(beta, "C3", "eqc", 0.8)


def test_many_bad_lines_are_counted_and_take_no_memory(mappings: CompanyMappingRepository) -> None:
    report = imported(mappings, HEADER + "x,y,z\n" * 3000)
    assert (report.bad, len(report.bad_lines), report.lines) == (3000, 1000, 3000)


def test_progress_ends_with_the_size_of_the_file(mappings: CompanyMappingRepository) -> None:
    content = (HEADER + "".join(f"company_name,Name {number},C\n" for number in range(1200))).encode()
    seen: list[int] = []
    import_mappings(mappings, io.BytesIO(content), on_progress=seen.append)
    assert len(seen) == 3
    assert seen[-1] == len(content)
