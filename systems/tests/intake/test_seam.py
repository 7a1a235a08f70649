"""F11: the one seam for documents."""

import inspect
from pathlib import Path
from typing import Any

import pytest

from rowmill_systems.intake import seam
from rowmill_systems.intake.analysis import Analysis, Evidence, Mapped, Suggestion, Unmapped
from rowmill_systems.intake.fields.loading import BadCatalogue, load_catalogue, read_catalogue
from rowmill_systems.parts.documents.document import Document, Kind, Line, Page
from systems.tests.intake.harness import FakeAnalyzer, intake_on

PAPER = b"Invoice number: 4711\nInvoice date: 31 March 2026\nWarehouse: north\n"
KEYWORDS = ["file_bytes", "filename", "doc_type", "field_catalog", "media_type"]


async def test_the_seam_reads_and_maps() -> None:
    """With its usual parts: a process that reads, rules that map, evidence that stands on the page."""
    found = await seam.analyze_project_file_document(
        file_bytes=PAPER, filename="a.txt", doc_type="invoice", field_catalog=load_catalogue(), media_type="text/plain"
    )
    assert isinstance(found, Analysis)
    values = {one.field: (one.value, one.evidence.page, one.evidence.quote) for one in found.mapped.suggestions}
    assert values["invoice_number"] == ("4711", 1, "4711")
    assert values["issue_date"] == ("2026-03-31", 1, "31 March 2026")
    assert [(note.label, note.value) for note in found.mapped.unmapped] == [("Warehouse", "north")]


AS_LINES = """
- invoice_number (id): Invoice number, Rechnungsnummer
2) Issue date (date): Invoice date
Warehouse
"""
AS_TOML = """
[[field]]
key = "invoice_number"
type = "id"
synonyms = ["Rechnungsnummer"]

[[field]]
key = "issue_date"
label = "Invoice date"
type = "date"

[[field]]
key = "warehouse"
"""


@pytest.mark.parametrize("text", [AS_LINES, AS_TOML])
async def test_the_catalogue_may_be_text(text: str) -> None:
    """F11: the answer has the evidence: the page, and what it quotes."""
    found = await seam.analyze_project_file_document(
        file_bytes=PAPER, filename="a.txt", doc_type=None, field_catalog=text, media_type=None
    )
    values = {one.field: (one.value, one.evidence.page, one.evidence.quote) for one in found.mapped.suggestions}
    assert values == {
        "invoice_number": ("4711", 1, "4711"),
        "issue_date": ("2026-03-31", 1, "31 March 2026"),
        "warehouse": ("north", 1, "north"),
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("  \n", "is empty"),
        ("total\nTotal", "two fields have the key total"),
        ("total\n\n: Sum", "line 3: key must be"),
        ("total (money)", r"line 1 \(total\): type must be one of"),
        ("lines (table)", "a table needs its columns"),
    ],
)
def test_a_text_that_is_no_catalogue_says_where(text: str, why: str) -> None:
    with pytest.raises(BadCatalogue, match=why):
        read_catalogue(text)


def test_it_is_called_by_keywords_alone() -> None:
    for call in (seam.analyze_project_file_document, seam.Analyst.analyze_project_file_document):
        parameters = [one for one in inspect.signature(call).parameters.values() if one.name != "self"]
        assert [one.name for one in parameters] == KEYWORDS
        assert {one.kind for one in parameters} == {inspect.Parameter.KEYWORD_ONLY}


async def test_another_one_can_take_its_place(sqlite_url: str, tmp_path: Path) -> None:
    analyzer = FakeAnalyzer()
    async with intake_on(sqlite_url, tmp_path, analyzer) as harness:
        number = await harness.put("total: 1", "mine.txt")
        await harness.drain()
        assert analyzer.read == ["mine.txt"]
        assert await harness.suggestions(number) == [("total", "1", "pending")]


async def test_texts_that_a_database_refuses_are_no_reason_to_fail(database_url: str, tmp_path: Path) -> None:
    """Whoever reads documents in another way may find NUL and halves of characters in them."""

    async def analyze(**given: Any) -> Analysis:
        odd, evidence = "a\x00b\ud800", Evidence(1, "quo\x00te")
        document = Document(Kind.TEXT, "text/plain", (Page(1, (Line(odd),)),), facts={"title": odd})
        mapped = Mapped((Suggestion("total", {odd: [odd]}, 0.9, evidence),), (Unmapped(odd, odd, evidence),))
        return Analysis(document, mapped)

    async with intake_on(database_url, tmp_path, analyze) as harness:
        first = await harness.put("total: 1")
        await harness.drain()
        second = await harness.put("total: 1")
        await harness.drain()
        for number in (first, second):
            assert (await harness.file(number)).processing_status == "completed"
            assert await harness.suggestions(number) == [("total", {"ab": ["ab"]}, "pending")]
            assert await harness.notes(number) == [("ab", "ab")]
