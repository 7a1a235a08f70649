"""What pages say: places, errors in words, marks, citations; and that no page scans a table."""

import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa

import rowmill as rm
from rowmill_systems.knowledge import errors as of_knowledge
from rowmill_systems.knowledge.knowledge import Knowledge
from rowmill_systems.knowledge.models import KbDocument
from rowmill_systems.knowledge.search.answering import AnswerOutcome, CitedAnswer
from rowmill_systems.knowledge.web import reads
from rowmill_systems.knowledge.web.explaining import OTHERWISE, explain
from rowmill_systems.knowledge.web.pages_search import shown_answer
from rowmill_systems.knowledge.web.places import PlaceState, passages_place, recorded_places
from rowmill_systems.knowledge.web.shown import highlighted, number_up_to
from rowmill_systems.parts.documents import errors as of_documents
from rowmill_systems.parts.objects import errors as of_objects
from rowmill_systems.parts.vectors import errors as of_vectors
from systems.tests.knowledge.harness import HashEmbedder, settings_for

NOT_OF_DOCUMENTS = {"kb_missing", "document_missing", "upload_expired", "superseded", "wrong_dimensions"}
"""Codes that no document is left with."""


def test_every_error_of_a_document_is_explained() -> None:
    modules = (of_knowledge, of_documents, of_objects, of_vectors)
    found = [each for module in modules for each in vars(module).values() if isinstance(each, type)]
    codes = {each.code for each in found if issubclass(each, rm.errors.WorkError)} - NOT_OF_DOCUMENTS
    assert len(codes) > 15
    assert [code for code in sorted(codes) if explain(code) is OTHERWISE] == []
    assert explain("of another version") is OTHERWISE


@pytest.mark.parametrize(
    ("status", "indexed", "states"),
    [
        ("pending", None, ["here", "here", "coming", "coming"]),
        ("failed", None, ["here", "here", "absent", "absent"]),
        ("ready", 1, ["here", "here", "here", "here"]),
        ("processing", 1, ["here", "here", "here", "here"]),
    ],
)
def test_a_row_says_where_its_document_is(status: str, indexed: int | None, states: list[str]) -> None:
    assert [place.state for place in recorded_places(status, indexed, 3)] == states


@pytest.mark.parametrize(
    ("status", "found", "state", "note"),
    [
        ("ready", {2: 3}, PlaceState.HERE, "3 passages"),
        ("ready", {2: 1}, PlaceState.WRONG, "1 passage, and 3 were written"),
        ("ready", {}, PlaceState.WRONG, "0 passages, and 3 were written"),
        ("ready", {1: 3, 2: 3}, PlaceState.WRONG, "3 passages, and 3 that are obsolete"),
        ("processing", {2: 3, 3: 1}, PlaceState.HERE, "3 passages, and 1 of the run that goes on"),
        ("ready", of_vectors.VectorsUnavailable("x"), PlaceState.UNKNOWN, "can't be observed (vectors_unavailable)"),
        ("ready", TimeoutError(), PlaceState.UNKNOWN, "can't be observed (timeout)"),
    ],
)
def test_what_a_store_answers_is_compared_with_what_was_written(
    status: str, found: Any, state: PlaceState, note: str
) -> None:
    document = KbDocument(status=status, indexed_generation=2, chunk_count=3)
    place = passages_place("Vectors", "points", document, found)
    assert (place.state, place.note) == (state, note)


def test_marks_are_set_around_what_was_searched_for() -> None:
    assert highlighted("<b> & c", [(4, 5), (0, 3)]) == "<mark>&lt;b&gt;</mark> <mark>&amp;</mark> c"
    assert highlighted("abc", [(0, 2), (1, 3), (2, 9)]) == "<mark>ab</mark>c", "nothing overlaps, or lies outside"


def test_citations_lead_to_passages_that_were_given() -> None:
    hits: Any = ("first", "second")
    said = shown_answer(CitedAnswer(AnswerOutcome.ANSWERED, "At six [2][1]. Not [7].", (), hits))
    assert said.parts == [("At six ", None), ("", 2), ("", None), ("", 1), (". Not [7].", None)]
    assert shown_answer(CitedAnswer(AnswerOutcome.NOT_FOUND, None, (), hits)).why_not == "The documents don't say."


def test_a_number_that_was_not_counted_to_its_end_says_so() -> None:
    assert [number_up_to(number, 1000) for number in (999, 1000, 1001)] == ["999", "1,000", "1,000+"]


async def test_no_page_scans_a_table(sqlite_url: str, tmp_path: Path) -> None:
    """Every statement of a list finds its rows by an index, in their order."""
    made: list[tuple[str, Any]] = []
    plans: list[str] = []

    def explain_all(connection: sa.Connection) -> None:
        @sa.event.listens_for(connection, "before_cursor_execute")
        def keep(_: Any, cursor: Any, statement: str, parameters: Any, *more: Any) -> None:
            made.append((statement, parameters))

        id: Any = uuid4()
        for sort in ("", "-name"):
            reads.kb_page(connection, search="x", sort=sort, after="")
        reads.kb_names(connection, 5)
        reads.kb_contents(connection, id)
        for status, sort in (("", ""), ("", "name"), ("failed", "")):
            reads.document_page(connection, id, search="x", status=status, sort=sort, after="")
        reads.passage_page(connection, KbDocument(id=id, indexed_generation=1), 0)
        reads.events_of(connection, id)
        for state, aggregate in (("", ""), ("dead", ""), ("pending", ""), ("", "x")):
            reads.event_page(connection, state=state, event_type="x", aggregate=aggregate, after="")
        reads.failed_documents(connection, id, 5)
        reads.names_of(connection, [id], [id])
        for statement, parameters in tuple(made):
            rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
            plans.append("\n".join([statement, "--", *(str(row[3]) for row in rows)]))

    knowledge = Knowledge(settings_for(sqlite_url, tmp_path), embedder=HashEmbedder())
    async with knowledge.opened():
        await knowledge.mill.run(explain_all, write=False)
    assert len(plans) > 15
    for index in ("outbox_dead", "outbox_aggregate", "ix_documents_kb_status", "ix_documents_kb_name"):
        assert any(index in plan for plan in plans), index
    for plan in plans:
        steps = plan.partition("\n--\n")[2].splitlines()
        scanned = [step for step in steps if re.match(r"SCAN (documents|knowledge_bases|chunks)\b", step)]
        assert scanned == [], plan
        if not any(step.startswith("SCAN anon") for step in steps):  # a bounded stretch, which filters compared
            assert not [step for step in steps if "TEMP B-TREE" in step], plan
        if "SCAN outbox" in steps:
            assert "LIMIT" in plan, "the latest events, by the primary key"
