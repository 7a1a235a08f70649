"""`rowmill systems companies …`, as a person calls it."""

import csv
import io
import json
from pathlib import Path

import pytest

from rowmill_systems.companies.commands.main import app
from systems.tests.companies.command_line import CommandLine, called
from systems.tests.companies.harness import SALT

COMMANDS = [
    *(
        [
            "resolve",
            "process",
            "stats",
            "requeue",
            "export",
            "rotate-salt",
            "renormalize",
            "serve",
            "work",
            "migrate",
            "review",
        ]
    ),
    *("review choose", "review none", "mappings import", "mappings export", "mappings conflicts", "mappings decide"),
    *("targets list", "targets add", "targets remove", "targets sweep"),
]
NEW_SALT = "another salt of the tests"


@pytest.fixture
def line(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> CommandLine:
    """Commands on SQLite."""
    return called(sqlite_url, tmp_path, monkeypatch, capfd)


@pytest.fixture
def both(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> CommandLine:
    """Commands on either database."""
    return called(database_url, tmp_path, monkeypatch, capfd)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_every_command_has_an_example(line: CommandLine, command: str) -> None:
    shown = line.run(*command.split(), "--help")
    assert "Example:" in shown
    assert f"rowmill systems companies {command}" in shown


def test_no_command_is_left_out_above() -> None:
    names = {(each.name or each.callback.__name__).replace("_", "-") for each in app.registered_commands}  # type: ignore[union-attr]
    for group in app.registered_groups:
        assert group.typer_instance is not None
        for each in group.typer_instance.registered_commands:
            names.add(f"{group.name} {each.name or each.callback.__name__}")  # type: ignore[union-attr]
    assert names | {"review"} == set(COMMANDS)


# resolve


def test_names_are_resolved_with_a_file_of_companies(both: CommandLine) -> None:
    both.write("in.csv", 'no,customer\n1,Acme Ltd\n2,"Globex, GmbH"\n3,\n4,Nobody Knows Ltd\n')
    both.run("resolve", "in.csv", "-c", "customer", "--companies-file", "known.csv", "--out", "out.csv")
    header, *rows = both.rows("out.csv")
    assert header == ["no", "customer", "company_id", "company_rung", "company_confidence", "company_reason"]
    assert [row[:4] for row in rows[:3]] == [
        ["1", "Acme Ltd", "C1", "file"],
        ["2", "Globex, GmbH", "C2", "file"],
        ["3", "", "", "none"],
    ]
    assert rows[3][2] == both.temp_id("Nobody Knows Ltd")
    assert both.said.splitlines()[-1] == "4 rows: 2 by file; 1 with a temporary id, 1 without a name"


def test_process_looks_up_before_it_writes(both: CommandLine) -> None:
    both.write("in.csv", "name\nAcme Ltd\nGlobex GmbH\nNobody Knows Ltd\n")
    words = ("resolve", "in.csv", "-c", "name")
    without = list(csv.reader(io.StringIO(both.run(*words))))
    assert [row[2] for row in without[1:]] == ["queue", "queue", "queue"]
    told = both.json(*words, "--companies-file", "known.csv", "--process", "--out", "out.csv")
    assert [row[1:3] for row in both.rows("out.csv")[1:3]] == [["C1", "cache"], ["C2", "cache"]]
    assert both.rows("out.csv")[3][1] == both.temp_id("Nobody Knows Ltd")
    assert told == {"rows": 3, "rungs": {"cache": 2, "temporary": 1}}
    assert "looked up: 2 resolved, 1 known to nobody, 0 to decide" in both.said


def test_standard_input_to_standard_output(line: CommandLine) -> None:
    printed = line.run("resolve", "-", "-c", "name", given=b"name;x\r\nAcme Ltd;1\r\n")
    assert printed.splitlines()[0] == "name;x;company_id;company_rung;company_confidence;company_reason"
    assert printed.splitlines()[1].startswith(f"Acme Ltd;1;{line.temp_id('Acme Ltd')};queue;;")
    assert "1 rows: none known; 1 with a temporary id" in line.said


def test_the_counts_are_json_on_stderr_where_the_rows_are_on_stdout(line: CommandLine) -> None:
    printed = line.run("resolve", "-", "-c", "name", "--json", given=b"name\nAcme Ltd\n")
    assert printed.startswith("name,company_id")
    assert json.loads(line.said) == {"rows": 1, "rungs": {"temporary": 1}}


@pytest.mark.parametrize("encoding", ["utf-8-sig", "gb18030", "utf-16", "cp1252"])
def test_other_encodings_are_recognised(line: CommandLine, encoding: str) -> None:
    names = (
        ["中国平安保险股份有限公司", "上海汽车集团有限公司"]
        if encoding != "cp1252"
        else ["Müller Söhne", "Café Zürich"]
    )
    line.write("in.csv", ("name\r\n" + "\r\n".join(names) + "\r\n").encode(encoding))
    line.run("resolve", "in.csv", "-c", "name", "-o", "out.csv")
    rows = [[cell.removeprefix("\ufeff") for cell in row] for row in line.rows("out.csv")]
    assert [row[:2] for row in rows[1:]] == [[name, line.temp_id(name)] for name in names]


def test_columns_that_are_there_already_stay(line: CommandLine) -> None:
    line.write("in.csv", "company_id,name,company_id_2\nmine,Acme Ltd,too\n")
    line.run("resolve", "in.csv", "-c", "name", "-o", "out.csv", "--companies-file", "known.csv")
    header, row = line.rows("out.csv")
    assert header[:4] == ["company_id", "name", "company_id_2", "company_id_2_2"]
    assert row[:4] == ["mine", "Acme Ltd", "too", "C1"]
    assert len(set(header)) == len(header)


def test_mappings_answer_by_plan_code_and_account(both: CommandLine) -> None:
    both.write(
        "m.csv",
        "match_type,alias,company_id\nplan_code,P1,M1\naccount_number,A1,M2\naccount_name,Main,M3\ncompany_name,Acme,M4\n",
    )
    assert both.json("mappings", "import", "m.csv")["added"] == 4
    both.write("in.csv", "n,p,a,an\nAcme,P1,,\nAcme,,A1,\nX Ltd,,,Main\nAcme,,,\n")
    options = ("--plan-code", "p", "--account-number", "a", "--account-name", "an")
    both.run("resolve", "in.csv", "-c", "n", *options, "-o", "out.csv")
    assert [row[4:6] for row in both.rows("out.csv")[1:]] == [
        ["M1", "plan_code"], ["M2", "account_number"], ["M3", "account_name"], ["M4", "company_name"],
    ]  # fmt: skip


def test_what_a_spreadsheet_would_run_is_made_harmless(line: CommandLine) -> None:
    line.write("m.csv", "match_type,alias,company_id\ncompany_name,Evil,=cmd|A0\n")
    line.run("mappings", "import", "m.csv")
    line.write("in.csv", "name\nEvil\n")
    line.run("resolve", "in.csv", "-c", "name", "-o", "out.csv")
    assert line.rows("out.csv")[1][1] == "'=cmd|A0"


@pytest.mark.parametrize(
    ("content", "column", "said"),
    [
        (b"name,x\nA,1\n", "nom", "name, x"),
        (b"name,name\nA,B\n", "name", "name"),
        (b"", "name", "empty"),
        (b"PK\x03\x04\x00\x00\x08\x00", "name", "CSV"),
    ],
)
def test_a_file_that_cannot_be_used_is_said_with_its_name(
    line: CommandLine, content: bytes, column: str, said: str
) -> None:
    line.write("in.csv", content)
    message = line.refused("resolve", "in.csv", "-c", column, "-o", "out.csv")
    assert "in.csv: " in message
    assert said in message
    assert not (line.folder / "out.csv").exists()
    assert line.read("SELECT count(*) FROM REQUESTS") == [(0,)]


def test_a_cell_of_a_million_characters_names_no_company(line: CommandLine) -> None:
    cell = "x" * 1_000_000
    line.write("in.csv", f"name\n{cell}\nAcme Ltd\n")
    line.run("resolve", "in.csv", "-c", "name", "-o", "out.csv", "--companies-file", "known.csv")
    long, acme = line.rows("out.csv")[1:]
    assert (long[0] == cell, long[1], long[2]) == (True, "", "none")
    assert "long" in long[4]
    assert acme[1] == "C1"


def test_files_that_are_not_there_and_places_that_are_none(line: CommandLine) -> None:
    line.write("in.csv", "name\nAcme\n")
    assert "nowhere.csv: it is not there" in line.refused("resolve", "nowhere.csv", "-c", "name")
    assert "itself" in line.refused("resolve", "in.csv", "-c", "name", "-o", "in.csv")
    message = line.refused("resolve", "in.csv", "-c", "name", "-o", "nowhere/out.csv")
    assert "nowhere/out.csv is no place for a file" in message
    option = message.partition("nowhere/out.csv")[0].split()[-1]
    line.run("resolve", "in.csv", "-c", "name", option, "out.csv")
    assert "--delimiter" in line.refused("resolve", "in.csv", "-c", "name", "--delimiter", "ab")


def test_a_file_of_companies_that_cannot_be_used_costs_no_attempt(line: CommandLine) -> None:
    line.write("in.csv", "name\nAcme\n")
    line.run("resolve", "in.csv", "-c", "name")
    line.write("bad.csv", "a,b\n1,2\n")
    for file in ("none.csv", "bad.csv"):
        for words in (
            ("resolve", "in.csv", "-c", "name"),
            ("process", "--execute"),
            ("work",),
            ("serve", "--with-worker"),
        ):
            assert f"{file}: " in line.refused(*words, "--companies-file", file)
    assert line.read("SELECT status, attempts FROM REQUESTS") == [("pending", 0)]


def test_a_salt_is_asked_for_and_another_one_is_refused(both: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    both.write("in.csv", "name\nAcme\n")
    both.run("resolve", "in.csv", "-c", "name")
    monkeypatch.setenv("WDH_TEMP_ID_SALT", NEW_SALT)
    said = both.refused("resolve", "in.csv", "-c", "name")
    assert "WDH_TEMP_ID_SALT_PREVIOUS" in said
    assert NEW_SALT not in said
    monkeypatch.delenv("WDH_TEMP_ID_SALT")
    if both.url.startswith("postgresql"):
        assert "set WDH_TEMP_ID_SALT" in both.refused("resolve", "in.csv", "-c", "name")


# process, stats, requeue


def test_a_plan_changes_nothing_and_execute_does_it(both: CommandLine) -> None:
    both.write("in.csv", "name\nAcme Ltd\nNobody Knows Ltd\n")
    both.run("resolve", "in.csv", "-c", "name")
    words = ("process", "--companies-file", "known.csv")
    shown = both.run(*words)
    assert "plan: 2 requests are due" in shown
    assert "process --execute" in shown
    assert both.json(*words)["plan_only"] is True
    assert both.read("SELECT DISTINCT status FROM REQUESTS") == [("pending",)]
    done = both.json(*words, "--execute", "--batch-size", "1")
    assert (done["done"], done["no_match"], done["pending_count"], done["done_count"]) == (1, 1, 0, 2)
    assert "nothing was due" in both.run(*words, "--execute")


def test_without_a_provider_it_says_what_to_set(line: CommandLine) -> None:
    assert "WDH_COMPANIES_FILE" in line.refused("process", "--execute")
    assert "plan: 0 requests" in line.run("process")
    assert "nobody_such" in line.refused("process", "--execute", "--providers", "nobody_such")
    line.refused("process", "--batch-size", "0")


def test_requests_that_fail_for_good_are_a_finding(both: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WDH_ENRICHMENT_MAX_ATTEMPTS", "1")
    monkeypatch.setenv("WDH_EQC_BASE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("WDH_EQC_TOKEN", "token-of-the-tests")
    both.sql("INSERT INTO REQUESTS (raw_name, normalized_name) VALUES ('Acme', 'acme')")
    told = both.json("process", "--execute", code=5)
    assert (told["failed"], told["failed_count"]) == (1, 1)
    stats = both.json("stats")
    assert (stats["failed"], stats["pending"], len(stats["days"])) == (1, 0, 14)


def test_stats_of_an_empty_and_of_a_used_queue(both: CommandLine) -> None:
    shown = both.run("stats")
    assert "to decide" in shown
    assert "rung" not in shown
    both.write("in.csv", "name\nAcme Ltd\nNobody Ltd\n")
    both.write("m.csv", "match_type,alias,company_id\ncompany_name,Acme Ltd,C1\n")
    both.run("mappings", "import", "m.csv")
    both.run("resolve", "in.csv", "-c", "name")
    both.review("Unclear Ltd")
    found = both.json("stats", "--days", "3")
    assert (found["pending"], found["done"], found["open_reviews"], len(found["days"])) == (1, 1, 1, 3)
    assert {each["rung"]: each["today"] for each in found["by_rung"]} == {"company_name": 1, "queue": 1}
    assert "3 days" in both.run("stats", "--days", "3")


def test_failed_requests_are_put_back(both: CommandLine) -> None:
    def fail() -> None:
        both.sql(
            "DELETE FROM REQUESTS",
            "INSERT INTO REQUESTS (id, raw_name, normalized_name, status, last_error, attempts) VALUES "
            "(1, 'a', 'a', 'failed', 'server_error: x', 3), (2, 'b', 'b', 'failed', 'refused: y', 3), "
            "(3, 'c', 'c', 'failed', 'refused: y', 3), (4, 'c', 'c', 'pending', NULL, 0)",
        )

    def waiting() -> list[int]:
        found = both.read("SELECT id FROM REQUESTS WHERE status = 'pending' AND attempts = 0 ORDER BY id")
        return [id for [id] in found]

    fail()
    assert both.json("requeue", "--failed") == {"requeued": 2}
    assert waiting() == [1, 2, 4]
    fail()
    assert both.run("requeue", "--failed", "--error", "server_error") == "1 are pending again\n"
    assert waiting() == [1, 4]
    fail()
    assert both.json("requeue", "--error", "server_error") == {"requeued": 1}
    fail()
    assert both.json("requeue", "2", "99") == {"requeued": 1}
    assert waiting() == [2, 4]
    both.json("requeue", "1", "--failed")
    assert waiting() == [1, 2, 4]
    assert "--failed" in both.refused("requeue")
    both.refused("requeue", "9" * 30)


# review


def test_reviews_are_listed_and_decided_once(both: CommandLine) -> None:
    both.sql("CREATE TABLE policies (id INTEGER PRIMARY KEY, company_id VARCHAR(40))")
    both.run("targets", "add", "policies", "company_id")
    assert both.run("review") == "nothing to decide\n"
    first, second, third = (both.review(name) for name in ("Acme", "Globex", "Third"))
    both.sql(f"INSERT INTO policies VALUES (1, '{both.temp_id('Acme')}'), (2, '{both.temp_id('Globex')}')")
    shown = both.run("review", "--limit", "2")
    assert f"{first}  Acme  (asked of file)" in shown
    assert "0.80  C1  Acme Ltd  same core, other region" in shown
    assert f"--after {second}" in both.said
    assert [each["id"] for each in both.json("review", "--after", str(second))] == [third]
    told = both.json("review", "choose", str(first), "C1", "--by", "anna")
    assert told == {"review": first, "company_id": "C1", "rows_written": 1}
    assert "was decided by anna meanwhile: C1" in both.refused("review", "choose", str(first), "C2", code=1)
    assert both.run("review", "none", str(second)) == "decided; 0 rows of targets written\n"
    assert "none of the candidates" in both.refused("review", "none", str(second), code=1)
    assert "there is no review 999" in both.refused("review", "none", "999", code=1)
    assert both.read("SELECT company_id FROM policies ORDER BY id") == [("C1",), (both.temp_id("Globex"),)]
    assert both.read("SELECT raw_name, resolved_by FROM REQUESTS WHERE resolved_company_id = 'C1'") == [
        ("Acme", "anna"),
    ]


@pytest.mark.parametrize("company", ["", "  ", "x" * 101, "a\udc80b"])
def test_an_id_that_is_none_is_refused(both: CommandLine, company: str) -> None:
    review = both.review("Acme")
    assert "company id" in both.refused("review", "choose", str(review), company)
    assert [each["id"] for each in both.json("review")] == [review]


def test_ids_that_no_database_has_are_refused(both: CommandLine) -> None:
    for words in (("review", "choose", "9" * 30, "C1"), ("review", "none", "9" * 30), ("review", "--after", "9" * 30),
                  ("mappings", "decide", "9" * 30, "C1"), ("mappings", "conflicts", "--after", "9" * 30)):  # fmt: skip
        both.refused(*words)


# mappings


def test_mappings_are_imported_exported_and_conflicts_decided(both: CommandLine) -> None:
    both.write("a.csv", "match_type,alias,company_id\ncompany_name,Acme Ltd,A1\nplan_code,P1,A2\n")
    assert both.run("mappings", "import", "a.csv") == "2 lines: 2 added, 0 changed, 0 unchanged\n"
    both.write("b.csv", "match_type,alias,company_id\ncompany_name,Acme Ltd,B1\nwrong,x,y\nplan_code,P1,A2\n")
    shown = both.run("mappings", "import", "b.csv", code=5)
    assert "mappings conflicts" in shown
    assert "line 3: match_type has to be one of" in both.said
    [conflict] = both.json("mappings", "conflicts", code=5)
    assert (conflict["company_id"], conflict["other_company_id"]) == ("A1", "B1")
    assert "A1" in both.run("mappings", "conflicts", code=5)
    number = str(conflict["id"])
    assert "Choose one of A1, B1" in both.refused("mappings", "decide", number, "C1")
    assert both.run("mappings", "decide", number, "B1") == "decided\n"
    both.refused("mappings", "decide", number, "B1", code=1)
    assert both.run("mappings", "conflicts") == "no conflict\n"
    both.run("mappings", "export", "--out", "all.csv")
    assert [row[2] for row in both.rows("all.csv")] == ["company_id", "A2", "B1"]
    assert both.run("mappings", "export").splitlines()[0] == "match_type,alias,company_id,source,confidence"
    assert both.json("mappings", "import", "all.csv")["unchanged"] == 2


def test_a_decided_conflict_writes_the_target(both: CommandLine) -> None:
    both.sql("CREATE TABLE policies (id INTEGER PRIMARY KEY, company_id TEXT)")
    both.run("targets", "add", "policies", "company_id")
    both.write("in.csv", "name\nAcme Ltd\n")
    both.run("resolve", "in.csv", "-c", "name")
    both.sql(f"INSERT INTO policies VALUES (1, '{both.temp_id('Acme Ltd')}')")
    both.write("m.csv", "match_type,alias,company_id\ncompany_name,Acme Ltd,A1\ncompany_name,Acme Ltd,B1\n")
    both.run("mappings", "import", "m.csv", code=5)
    [conflict] = both.json("mappings", "conflicts", code=5)
    assert both.json("mappings", "decide", str(conflict["id"]), "B1", "--by", "x" * 300)["rows_written"] == 1
    assert both.read("SELECT company_id FROM policies") == [("B1",)]


def test_mapping_files_that_cannot_be_used(line: CommandLine) -> None:
    line.write("bad.csv", "a,b\n1,2\n")
    assert "bad.csv: it lacks the column match_type, alias, company_id" in line.refused("mappings", "import", "bad.csv")
    assert "nowhere.csv: " in line.refused("mappings", "import", "nowhere.csv")
    assert "no place" in line.refused("mappings", "export", "-o", "nowhere/x.csv")


# targets


def test_targets_are_registered_swept_and_left_alone(both: CommandLine) -> None:
    both.sql("CREATE TABLE policies (id INTEGER PRIMARY KEY, company_id TEXT, number INTEGER)")
    assert "there is no table nope" in both.refused("targets", "add", "nope", "company_id")
    assert "has no column nope" in both.refused("targets", "add", "policies", "nope")
    assert "holds INTEGER" in both.refused("targets", "add", "policies", "number")
    assert "a table of companies itself" in both.refused("targets", "add", "company_reviews", "raw_name")
    assert "no name of a table" in both.refused("targets", "add", "a.b.c", "x")
    assert "is registered. No index finds its rows" in both.run("targets", "add", "policies", "company_id")
    both.run("targets", "add", "policies", "company_id")
    both.write("in.csv", "name\nAcme Ltd\n")
    both.run("resolve", "in.csv", "-c", "name", "--companies-file", "known.csv")
    both.sql(
        f"INSERT INTO policies VALUES (1, '{both.temp_id('Acme Ltd')}', 0)",
        "INSERT INTO REQUESTS (raw_name, normalized_name, status, resolved_company_id, finished_at) "
        f"VALUES ('Acme Ltd', '{normal('Acme Ltd')}', 'done', 'C1', CURRENT_TIMESTAMP)",
    )
    assert both.run("targets", "sweep") == "1 rows of 1 targets written\n"
    [target] = both.json("targets", "list")
    assert (target["table_name"], target["rows_written"], target["last_error"]) == ("policies", 1, None)
    assert "policies" in both.run("targets", "list")
    both.sql("DROP TABLE policies")
    assert both.json("targets", "sweep", "--everything", code=5)["failed"] == ["policies.company_id"]
    assert both.json("targets", "remove", "policies", "company_id") == {"removed": True}
    assert both.json("targets", "remove", "policies", "company_id", code=1) == {"removed": False}
    assert both.json("targets", "list") == []


def normal(name: str) -> str:
    from rowmill_systems.companies.temp_ids import normalize_for_temp_id

    return normalize_for_temp_id(name)


# rotate-salt, export, migrate


def test_the_salt_is_rotated_with_both_salts_and_execute(both: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    both.write("in.csv", "name\nAcme Ltd\nGlobex\n")
    both.run("resolve", "in.csv", "-c", "name")
    before = both.read("SELECT temp_id FROM REQUESTS ORDER BY id")
    assert "both salts" in both.refused("rotate-salt", "--execute")
    monkeypatch.setenv("WDH_TEMP_ID_SALT", NEW_SALT)
    monkeypatch.setenv("WDH_TEMP_ID_SALT_PREVIOUS", SALT)
    assert both.json("rotate-salt") == {"plan_only": True, "requests": 2, "targets": [], "interrupted": False}
    plan = both.run("rotate-salt")
    assert "plan: 2 requests" in plan
    assert "until every process has the new salt and a pass finds 0 rows" in plan
    assert both.read("SELECT temp_id FROM REQUESTS ORDER BY id") == before
    assert both.json("rotate-salt", "--execute") == {"requests": 2, "rows": 0, "failed": []}
    after = both.read("SELECT temp_id FROM REQUESTS ORDER BY id")
    assert not set(after) & set(before)
    both.sql("CREATE TABLE policies (company_id VARCHAR(40))", f"INSERT INTO policies VALUES ('{before[0][0]}')")
    both.run("targets", "add", "policies", "company_id")
    assert "2 requests and 1 rows of targets were rewritten. Keep" in both.run("rotate-salt", "--execute")
    assert "WDH_TEMP_ID_SALT_PREVIOUS can go" in both.run("rotate-salt", "--execute")
    monkeypatch.setenv("WDH_TEMP_ID_SALT_PREVIOUS", "neither")
    monkeypatch.setenv("WDH_TEMP_ID_SALT", "nor")
    for words in (["rotate-salt"], ["rotate-salt", "--execute"]):
        assert "neither of these salts" in both.refused(*words)


def test_normal_forms_of_before_are_made_anew_after_a_plan(both: CommandLine) -> None:
    both.sql("INSERT INTO REQUESTS (raw_name, normalized_name) VALUES ('Acme Ltd', 'ACME'), ('ACME  ltd', 'ACME LTD')")
    counts = {"requests": 2, "merged": 1, "busy": 0, "rows": 0}
    assert both.json("renormalize") == {"plan_only": True, **counts}
    assert "plan: 2 requests" in both.run("renormalize")
    assert both.json("renormalize", "--execute") == {"plan_only": False, **counts}
    assert "0 requests with another normal form" in both.run("renormalize", "--execute")


def test_resolutions_are_exported_since_a_time(both: CommandLine) -> None:
    both.sql(
        "INSERT INTO REQUESTS (raw_name, normalized_name, status, resolved_company_id, resolved_by, finished_at) "
        "VALUES ('=Old', 'old', 'done', 'C1', 'eqc', '2020-01-01 00:00:00'), "
        "('New', 'new', 'done', 'C2', 'eqc', '2026-01-31 10:00:00')"
    )
    shown = list(csv.reader(io.StringIO(both.run("export"))))
    assert [row[0] for row in shown] == ["raw_name", "'=Old", "New"]
    both.run("export", "--since", "2026-01-31", "--out", "out.csv")
    assert [row[:4] for row in both.rows("out.csv")[1:]] == [["New", "", "C2", "eqc"]]
    both.run("export", "--since", "2026-01-31T20:00:00+08:00", "--out", "out.csv")
    assert len(both.rows("out.csv")) == 1
    assert "--since yesterday is no time. Write it like 2026-01-31" in both.refused("export", "--since", "yesterday")
    assert "no place" in both.refused("export", "-o", "nowhere/x.csv")


@pytest.mark.empty_database
def test_tables_are_made_by_migrate_and_on_sqlite_by_the_first_command(both: CommandLine) -> None:
    if both.url.startswith("postgresql"):
        for words in (("stats",), ("process",), ("review",), ("targets", "list"), ("rotate-salt", "--execute")):
            assert "rowmill systems companies migrate" in both.refused(*words, code=4)
        both.run("migrate")
    assert both.json("stats")["pending"] == 0
    both.run("migrate")
    both.json("migrate")


@pytest.mark.parametrize(
    ("name", "value"),
    [("WDH_ENRICHMENT_BATCH_SIZE", "0"), ("WDH_RECONCILIATION", "{"), ("WDH_ACCEPT_SCORE", "2")],
)
def test_wrong_settings_are_said_with_their_names(
    line: CommandLine, name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    assert name in line.refused("process")
