"""Where values stand beside their labels."""

import pytest

from rowmill_systems.intake.fields.catalogue import Catalogue, Field, FieldType
from rowmill_systems.intake.fields.rules import map_by_rules
from rowmill_systems.parts.documents.document import Kind
from systems.tests.intake.fields.sheets import document, mapped, placed, sureness, values


@pytest.mark.parametrize(
    "text",
    [
        "Invoice no.: RE-2026-17", "INVOICE NUMBER RE-2026-17", "Invoice #RE-2026-17", "Rechnungs-Nr.: RE-2026-17",
        "Rechnungsnr. RE-2026-17", "N° de facture : RE-2026-17", "Numero de la facture: RE-2026-17",
        "发票号码：RE-2026-17",
        "Rechnungsnummer / Invoice number: RE-2026-17", "Invoice no.\tRE-2026-17", "Invoice no.      RE-2026-17",
        "Invoice no.\nRE-2026-17", "Ref 5 | Invoice no.: RE-2026-17 | Page 1", "lnvoice N0.: RE-2026-17",
        "Invoice RE-2026-17 of 31.03.2026",
    ],
)  # fmt: skip
def test_a_value_is_found_beside_its_label(text: str) -> None:
    assert values(text)["invoice_number"] == "RE-2026-17"


def test_ocr_may_change_a_letter_of_a_label_on_scans_only() -> None:
    assert values("Invoise number: 4711", scanned=True)["invoice_number"] == "4711"
    assert "invoice_number" not in values("Invoise number: 4711")


def test_labels_above_values_are_matched_by_column() -> None:
    rows = "Invoice no.\tInvoice date\tDue date\n4711\t31.03.2026\t30.04.2026"
    found = values(rows)
    assert (found["invoice_number"], found["issue_date"], found["due_date"]) == ("4711", "2026-03-31", "2026-04-30")


def test_columns_are_matched_by_place_where_the_file_has_places() -> None:
    page = placed(
        [(0.1, 0.1, "Invoice-no."), (0.5, 0.1, "Due-date")],
        [(0.5, 0.13, "30.04.2026")],
        [(0.1, 0.131, "4711")],
    )
    assert values(page) == {"invoice_number": "4711", "due_date": "2026-04-30"}


def test_lines_that_stand_beside_each_other_are_one_row() -> None:
    page = placed([(0.1, 0.1, "Total")], [(0.7, 0.101, "99.00")])
    assert values(page)["total_amount"]["amount"] == "99.00"


def test_a_scan_that_lies_askew_is_straightened() -> None:
    slope = 0.02
    lines = [[(x, y + slope * x, f"word{n}") for n, x in enumerate((0.05, 0.4, 0.8))] for y in (0.5, 0.6, 0.7)]
    page = placed([(0.05, 0.2, "Total")], [(0.9, 0.2 + slope * 0.9, "99.00")], *lines, scanned=True)
    assert values(page)["total_amount"]["amount"] == "99.00"


@pytest.mark.parametrize(
    "text", ["Print date: 31.03.2026", "Total weight: 99.00", "Angebotsdatum\t31.03.2026", "Date of birth: 31.03.2026"]
)
def test_labels_of_something_else_are_left_alone(text: str) -> None:
    assert values(text) == {}


def test_a_word_that_changes_the_meaning_costs_confidence() -> None:
    assert sureness("Roasting date: 31.03.2026", "issue_date") < 0.6 < sureness("Date: 31.03.2026", "issue_date")


def test_a_label_that_two_documents_use_belongs_to_the_document() -> None:
    assert values("Order date: 31.03.2026", "invoice") == {"order_date": "2026-03-31"}
    assert values("Order date: 31.03.2026", "purchase_order") == {"issue_date": "2026-03-31"}


def test_american_papers_put_the_month_first() -> None:
    assert values("Date: 03/04/2026\nTotal: $12.00")["issue_date"] == "2026-03-04"
    assert values("Date: 03/04/2026\nTotal: £12.00")["issue_date"] == "2026-04-03"


def test_a_field_of_one_s_own_is_found_by_its_synonyms() -> None:
    own = Catalogue.of([Field("mass", "Mass", FieldType.NUMBER, ("Gewicht",)), Field("colour", "Colour")])
    found = map_by_rules(document("Gewicht: 12,5 kg\nColour: dark red"), doc_type=None, catalogue=own).suggestions
    assert [(each.field, each.value) for each in found] == [("mass", "12.5"), ("colour", "dark red")]


def test_labelled_values_without_a_field_are_told() -> None:
    found = mapped("Invoice no.: 4711\nCost centre: 12 North\nIncoterms:\tDAP Hamburg\nsee https://a.example").unmapped
    assert [(each.label, each.value) for each in found] == [("Cost centre", "12 North"), ("Incoterms", "DAP Hamburg")]


def test_the_head_of_a_mail_yields_to_the_paper() -> None:
    text = "From: a@seller.example\nTo: b@buyer.example\nDate: Fri, 01 Jan 2027 09:00:00\nInvoice date: 31.03.2026"
    found = values(text, kind=Kind.EMAIL)
    assert (found["issue_date"], found["email"]) == ("2026-03-31", "a@seller.example")


def test_one_field_has_one_value_and_many_have_many() -> None:
    ibans = "IBAN: DE89 3704 0044 0532 0130 00\nIBAN: GB29 NWBK 6016 1331 9268 19"
    assert [each.field for each in mapped(ibans).suggestions] == ["iban", "iban"]
    dates = mapped("Invoice date: 31.03.2026\nInvoice date: 01.04.2026").suggestions
    assert [each.value for each in dates] == ["2026-03-31"]
