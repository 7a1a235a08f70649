"""`rowmill systems entities link`: files as people have them, linked, interrupted, and gone on with."""

import csv
import io
import json
import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

import rowmill as rm
from rowmill.cli.main import run
from rowmill.testing import QUICK
from rowmill_systems.entities.commands.waiting import waits
from systems.tests.entities.commands import answers, are_there, database, shell_on
from systems.tests.entities.harness import entities_on
from systems.tests.shell import Shell
from tests.support.waiting import until

ADDED = ["wikidata_id", "dbpedia_uri", "other_ids", "linking_label", "linking_confidence", "linking_source",
         "enrichment_status", "enrichment_note"]  # fmt: skip


@pytest.fixture
def shell(sqlite_url: str, tmp_path: Path) -> Iterator[Shell]:
    found = shell_on(sqlite_url, tmp_path)
    yield found
    found.end()


def parsed(text: str, delimiter: str = ",") -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))


def linked(shell: Shell, content: bytes, *words: str, code: int = 0) -> list[dict[str, str]]:
    """The rows of a file with what was added, by the names of columns."""
    (shell.folder / "given.csv").write_bytes(content)
    head, *rows = parsed(shell.run("link", "given.csv", *words, code=code))
    return [dict(zip(head, row, strict=True)) for row in rows]


def test_names_are_linked_and_columns_added(database_url: str, tmp_path: Path) -> None:
    shell = shell_on(database_url, tmp_path)
    if database_url.startswith("postgres"):
        shell.run("migrate")
    content = "no,name\n1,Ada Lovelace\n2,Nobody At All\n3,\n4,Zürich\n".encode()
    ada, nobody, without, zurich = linked(shell, content, "-c", "name")
    assert list(ada) == ["no", "name", *ADDED, "entity_birth_date", "entity_occupation", "entity_coordinates"]
    assert (ada["no"], ada["wikidata_id"], ada["linking_label"]) == ("1", "Q7259", "Ada Lovelace")
    assert (ada["other_ids"], ada["linking_source"]) == ("embedded: ada", "embedded")
    assert 0.75 <= float(ada["linking_confidence"]) <= 1
    assert (ada["entity_birth_date"], ada["entity_occupation"]) == ("1815-12-10", "mathematician; writer")
    assert (nobody["enrichment_status"], nobody["enrichment_note"]) == ("COMPLETE", "No external link found")
    assert nobody["wikidata_id"] == nobody["entity_birth_date"] == ""
    assert (without["enrichment_status"], without["enrichment_note"]) == ("", "No name")
    assert zurich["entity_coordinates"] == "-47.37, 8.54"


def test_a_file_of_a_spreadsheet_stays_one(shell: Shell) -> None:
    """A byte order mark, semicolons, lines that end as on Windows, and a cell of two lines."""
    content = '\ufeffName;Notiz\r\n"Ada Lovelace";"a ""b""\r\n;c"\r\nZürich;,,\r\n'
    (shell.folder / "in.csv").write_bytes(content.encode())
    shell.run("link", "in.csv", "--column", "name", "--output", "out.csv")
    written = (shell.folder / "out.csv").read_bytes()
    assert written.startswith(b"\xef\xbb\xbfName;Notiz;wikidata_id;")
    assert written.count(b"\n") == written.count(b"\r\n") == 4
    head, ada, zurich = parsed(written.decode("utf-8-sig"), ";")
    assert ada[:3] == ["Ada Lovelace", 'a "b"\r\n;c', "Q7259"]
    assert zurich[:3] == ["Zürich", ",,", "Q72"]
    assert len(head) == len(ada) == len(zurich)
    lines = [json.loads(line) for line in shell.run("link", "in.csv", "-c", "name", "--format", "json").splitlines()]
    assert [line["line"] for line in lines] == [2, 4], "where the row begins"


def test_a_file_of_an_older_windows_is_read_and_that_is_said(shell: Shell) -> None:
    (shell.folder / "in.csv").write_bytes("name\tnote\nZürich\t€\n".encode("cp1252"))
    done = shell.call("link", "in.csv", "-c", "name", "-o", "out.csv")
    assert done.returncode == 0, done.stderr
    assert "read as Windows-1252" in done.stderr.decode()
    assert (shell.folder / "out.csv").read_bytes().startswith(b"\xef\xbb\xbfname\tnote\twikidata_id")
    assert "Zürich\t€\tQ72\t" in (shell.folder / "out.csv").read_text("utf-8-sig")


def test_what_strangers_wrote_is_no_formula_and_what_is_in_the_file_is_left_alone(shell: Shell) -> None:
    content = b'name,sum,linking_label\nEvil Corp,=1+1,mine\nJulius Caesar,"-2+3","a\x00b"\n'
    evil, caesar = linked(shell, content, "-c", "name")
    assert (evil["sum"], evil["linking_label"], caesar["sum"]) == ("=1+1", "mine", "-2+3")
    assert caesar["linking_label"] == "a\x00b"
    assert evil["linking_label_2"] == "Evil Corp", "a column that is there already stays what it is"
    assert evil["entity_industry"] == "'=cmd|' /C calc'!A0; +1+cmd"
    assert caesar["entity_birth_date"] == "-0100-07-12", "digits call nothing"


def test_json_has_all_that_is_known_and_who_says_so(shell: Shell) -> None:
    given = b"name,name,kind\nAda Lovelace,x,PER\nEvil Corp,y,ORG\n"
    done = shell.call("link", "-", "-c", "kind", "--format", "json", given=given)
    assert done.returncode == 0, done.stderr
    other = shell.call("link", "-", "-c", "name", "--format", "json", given=given)
    assert (other.returncode, "several columns name" in other.stderr.decode()) == (2, True)
    given = given.replace(b"name,name", b"name,alias")
    done = shell.call("link", "-", "-c", "name", "--type-column", "kind", "--format", "json", given=given)
    ada, evil = (json.loads(line) for line in done.stdout.splitlines())
    assert ada["row"] == {"name": "Ada Lovelace", "alias": "x", "kind": "PER"}
    assert ada["entity"]["properties"]["birth_date"] == [
        {"value": "1815-12-10", "sources": [{"source": "embedded", "ref": "ada"}]}
    ]
    assert evil["entity"]["other_ids"] == {"embedded": "evil"}
    rows = answers(shell, "SELECT entity_type FROM entities WHERE name = 'Ada Lovelace' AND entity_type IS NOT NULL")
    assert rows == [("PER",)]


def test_types_contexts_and_ids_are_put_in(shell: Shell) -> None:
    content = b"key,name,a,b\nk1,Ada Lovelace,wrote,programs\nk2,Nobody,,\n"
    options = ("-c", "name", "--type", "person", "--context-column", "a", "--context-column", "b", "--id-column", "key")
    linked(shell, content, *options)
    wanted = "SELECT external_id, entity_type, context FROM entities ORDER BY external_id"
    assert answers(shell, wanted) == [("k1", "person", "wrote\nprograms"), ("k2", "person", None)]


def test_a_second_run_of_the_same_file_does_nothing_but_write(shell: Shell) -> None:
    content = b"name\nAda Lovelace\nNobody\n"
    first = linked(shell, content, "-c", "name")
    look = "SELECT name, enriched_at, enrichment_seconds, (SELECT count(*) FROM entity_changes) FROM entities"
    before = answers(shell, look)
    assert linked(shell, content, "-c", "name") == first
    assert answers(shell, look) == before
    linked(shell, content, "-c", "name", "--run", "another")
    assert len(answers(shell, look)) == 4, "under another name it is another run"


def test_links_alone_and_then_the_rest(shell: Shell) -> None:
    content = b"name\nAda Lovelace\nNobody\n"
    [ada, nobody] = linked(shell, content, "-c", "name", "--no-enrich")
    assert (ada["wikidata_id"], ada["enrichment_status"], nobody["enrichment_status"]) == (
        "Q7259",
        "LINKED",
        "COMPLETE",
    )
    assert "entity_birth_date" not in ada
    [ada, _] = linked(shell, content, "-c", "name")
    assert (ada["enrichment_status"], ada["entity_birth_date"]) == ("COMPLETE", "1815-12-10")
    assert len(answers(shell, "SELECT entity_id FROM entities")) == 2


def test_rows_that_failed_say_why_and_can_be_tried_again(shell: Shell) -> None:
    content = b"name\nAda Lovelace\nNobody\n"
    linked(shell, content, "-c", "name")
    connection = database(shell)
    connection.execute("UPDATE entities SET enrichment_status = 'FAILED', enrichment_error = 'boom: it broke' "
                       "WHERE name = 'Nobody'")  # fmt: skip
    connection.commit()
    connection.close()
    _, failed = linked(shell, content, "-c", "name", code=5)
    assert (failed["enrichment_status"], failed["enrichment_note"]) == ("FAILED", "boom: it broke")
    _, again = linked(shell, content, "-c", "name", "--retry-failed")
    assert (again["enrichment_status"], again["enrichment_note"]) == ("COMPLETE", "No external link found")


def test_interrupted_it_says_how_far_it_is_and_goes_on_from_there(shell: Shell) -> None:
    rows = "".join(f"{number},Ada Lovelace {number}\n" for number in range(800))
    (shell.folder / "in.csv").write_text(f"no,name\n{rows}")
    options = ("link", "in.csv", "-c", "name", "-o", "out.csv")
    process = shell.start(*options)
    done = "SELECT entity_id, enriched_at FROM entities WHERE enrichment_status = 'COMPLETE' ORDER BY entity_id"
    until(lambda: process.poll() is not None or are_there(shell, done))
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=90)
    assert process.returncode == 130, said
    before = answers(shell, done)
    assert f"stopped: {len(before)} of 800 are final. The same command goes on from there" in said.decode()
    assert 0 < len(before) < 800
    assert not (shell.folder / "out.csv").exists()
    assert (
        answers(shell, "SELECT entity_id FROM entities WHERE enrichment_status LIKE '%ING' AND lease IS NOT NULL") == []
    )
    shell.run(*options)
    after = dict(answers(shell, done))
    assert len(after) == 800
    assert {id: after[id] for id, _ in before} == dict(before), "nothing is done twice"
    assert len(parsed((shell.folder / "out.csv").read_text())) == 801


@pytest.mark.parametrize(
    ("content", "words", "said"),
    [
        (b"a;b\nx;y\n", ("-c", "name"), "given.csv: it has no column name. It has: a, b"),
        (b"", ("-c", "name"), "it is empty"),
        (b"\n\n", ("-c", "name"), "it is empty"),
        (b"name,b\nx,y\nx,y,z\n", ("-c", "name"), "line 3 has 3 cells, and the first line 2"),
        (b'name,b\nx,y\n"x,y\n', ("-c", "name"), "line 3 is not CSV"),
        (b"PK\x03\x04...", ("-c", "name"), "it is a spreadsheet. Save it as CSV"),
        (b"name\n\x00\x01\xff\n", ("-c", "name"), "it is not text"),
        (b"\xff\xfen\x00a", ("-c", "name"), "looks like utf-16"),
        (b"name\nx\n", ("-c", "name", "--type", "thingummy"), "there is no type thingummy. There are: person"),
        (b"name\nx\n", ("-c", "name", "--type", "person", "--type-column", "name"), "--type-column"),
        (b"name\nx\n", ("-c", "name", "--context-column", "no"), "no column no"),
        (b"name\nx\n", ("-c", "name", "--delimiter", ",,"), "--delimiter is one sign"),
        (b"name\nx\n", ("-c", "name", "--sources", "oracle"), "there is no source oracle. There are: embedded"),
        (b"name\nx\n", ("-c", "name", "--output", "given.csv"), "can't be written to itself"),
        (b"name\nx\n", ("-c", "name", "--output", "no/where.csv"), "is no place for a file"),
        (b"name\nx\n", ("-c", "name", "--kb", "no.kb"), "no.kb is not there"),
        (b"id,name\n1,x\n1,y\n", ("-c", "name", "--id-column", "id"), "line 3 has the id of a row before it"),
        (b"id,name\n,x\n", ("-c", "name", "--id-column", "id"), "line 2 has no id"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_done(
    shell: Shell,
    content: bytes,
    words: tuple[str, ...],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In this process: there are many ways to be wrong."""
    for name, value in shell.given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(shell.folder)
    (shell.folder / "given.csv").write_bytes(content)
    assert run(["systems", "entities", "link", "given.csv", *words]) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert not are_there(shell, "SELECT entity_id FROM entities")


def test_a_file_that_is_not_there(shell: Shell) -> None:
    assert "nowhere.csv: it is not there" in shell.run("link", "nowhere.csv", "-c", "name", code=2)


def test_a_file_of_a_header_alone_has_no_rows(shell: Shell) -> None:
    assert linked(shell, b"name,b\n", "-c", "name") == []


def test_the_result_takes_the_place_of_an_older_one_with_its_rights(shell: Shell) -> None:
    target = shell.folder / "out.csv"
    target.write_text("old")
    target.chmod(0o640)
    (shell.folder / "in.csv").write_text("name\nAda Lovelace\n")
    shell.run("link", "in.csv", "-c", "name", "-o", "out.csv")
    assert target.read_text().startswith("name,wikidata_id")
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert [path.name for path in shell.folder.iterdir() if path.name.startswith(".out")] == []


def test_whoever_reads_the_first_lines_alone_is_no_failure(shell: Shell) -> None:
    (shell.folder / "in.csv").write_text("name,note\n" + f"Nobody,{'x' * 2000}\n" * 100)
    reading, writing = os.pipe()
    process = shell.start("link", "in.csv", "-c", "name", stdout=writing)
    os.close(writing)
    os.close(reading)
    _, said = process.communicate(timeout=90)
    assert process.returncode == 0, said
    assert said.startswith(b"100 rows:")


async def test_it_says_which_services_are_waited_for(sqlite_url: str) -> None:
    async with (
        entities_on(sqlite_url, sources="embedded,wikidata,dbpedia") as harness,
        harness.mill.worker(settings=QUICK) as worker,
    ):
        assert await waits(harness.entities, worker) == ""
        limits = harness.entities.limits
        await limits["wikidata"].park(3600)
        with pytest.raises(rm.errors.ProviderRefused):
            async with limits["dbpedia-data"].call():
                raise rm.errors.ProviderRefused("no")
        said = await waits(harness.entities, worker)
    waited, off = said.split("; ")
    assert waited.startswith("waiting for wikidata until ")
    assert off.startswith("dbpedia-data is off: ")
    assert off.endswith("limits on entities-dbpedia-data")
