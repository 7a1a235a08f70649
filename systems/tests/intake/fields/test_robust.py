"""Whatever the text: no exception, evidence that is on the page, bounded output, and an end in sight."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rowmill_systems.intake.analysis import Evidence, Mapped
from rowmill_systems.intake.fields.loading import load_catalogue
from rowmill_systems.intake.fields.rules import map_by_rules
from rowmill_systems.parts.documents.document import Box, Document, Kind, Line, Page, Word
from systems.tests.intake.fields.sheets import mapped

CATALOGUE = load_catalogue()
SPOKEN = st.sampled_from(
    [
        "Invoice no.", "Date", "Total", "VAT", "IBAN", "Bill to", "Description", "Qty", "Price", ":", "\t", "  ", "|",
        "4711", "RE-1", "31.03.2026", "1.190,00 €", "19 %", "DE89370400440532013000", "Acme Ltd", "GmbH",
        "1 High Street", "London SW1A 1AA", "a@b.example", "+49 40 123456", "Dear", "发票号码", "有限公司", "(",
        ")", "-", "Subject", "Payable within 30 days.", "0", "DE136695976", "Effective date",
    ]
)  # fmt: skip
LINES = st.lists(st.one_of(st.lists(SPOKEN, max_size=8).map(" ".join), st.text(max_size=40)), max_size=14)


def boxed(line: str, row: int) -> Line:
    """With a place for every word, as it would stand on a page."""
    words, at = [], 0
    for text in line.split():
        at = line.index(text, at)
        words.append(Word(text, Box(at / 400, row / 50, (at + len(text)) / 400, row / 50 + 0.015)))
        at += len(text)
    return Line(line, tuple(words))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(LINES, st.booleans(), st.booleans(), st.sampled_from(["invoice", "contract", "letter", "purchase_order", None]))
def test_any_text_is_mapped_with_evidence_that_is_on_the_page(
    lines: list[str], places: bool, scanned: bool, doc_type: str | None
) -> None:
    page = Page(1, tuple(boxed(line, row) if places else Line(line) for row, line in enumerate(lines)), scanned)
    document = Document(Kind.PDF, "application/pdf", (page,), "en")
    found = map_by_rules(document, doc_type=doc_type, catalogue=CATALOGUE)
    check(found, page)
    assert found == map_by_rules(document, doc_type=doc_type, catalogue=CATALOGUE)


def check(found: Mapped, page: Page) -> None:
    many = {field.key for field in CATALOGUE.fields if field.many}
    keys = [each.field for each in found.suggestions if each.field not in many]
    assert len(keys) == len(set(keys))
    for suggestion in found.suggestions:
        assert 0 < suggestion.confidence <= 1
        json.dumps(suggestion.value)
        stands(suggestion.evidence, page)
    for each in found.unmapped:
        assert each.label
        assert each.value
        stands(each.evidence, page)


def stands(evidence: Evidence, page: Page) -> None:
    assert evidence.page == page.number
    assert evidence.quote
    assert all(any(part in line.text for line in page.lines) for part in evidence.quote.split("\n"))
    if any(line.words for line in page.lines):
        assert evidence.boxes


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "piece",
    [
        "1", "a", "1 ", "1,", "1.", "(", "DE", "DE12 ", "Invoice no. ", "Total: ", "a@", "+49 ", "GmbH ", "A. ", "\t",
        "  ", "|", "路", "市路", "31.12.", "€ -", "HRB ", "A, ", "Bill to: ", "x:\t", "'", "S.", "Jan 1 ", "www.", "é",
        "Description\tQty\tPrice\tTotal\t", "\u0301", "(-€-1",
    ],
)  # fmt: skip
def test_hostile_lines_and_pages_come_to_an_end(piece: str) -> None:
    long_line = piece * (200_000 // len(piece))
    mapped(long_line, scanned=True)
    mapped("\n".join([piece * 40] * 150), None, scanned=True)


def test_output_is_bounded() -> None:
    lines = [f"IBAN DE{n:02d} 3704 0044 0532 0130 00\tKey {n}: value {n}\tParty{n} Ltd" for n in range(1_000)]
    found = mapped("\n".join(lines), None)
    assert len(found.unmapped) <= 50
    assert len(found.suggestions) <= 20 * len(CATALOGUE.fields)


def test_an_empty_document_says_nothing() -> None:
    nothing = Document(Kind.PDF, "application/pdf", ())
    assert map_by_rules(nothing, doc_type="invoice", catalogue=CATALOGUE) == Mapped()
    assert mapped("") == Mapped()
