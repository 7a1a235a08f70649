from rowmill_systems.parts.documents.document import Document, Kind, Line, Page
from systems.tests.intake.fields.sheets import mapped, placed, sureness, values

ITEMS = """
Pos\tBezeichnung\tMenge\tEinzelpreis\tGesamt
1\tBohrer 8 mm\t10\t50,00\t500,00
\tgehärtet, im Kasten
2\tSäge\t5\t100,00\t500,00
Zwischensumme\t1.000,00 €
MwSt. 19 %\t190,00 €
Gesamtbetrag\t1.190,00 €
"""
ROWS = [
    {"description": "Bohrer 8 mm gehärtet, im Kasten", "quantity": "10", "price": "50,00", "total": "500,00"},
    {"description": "Säge", "quantity": "5", "price": "100,00", "total": "500,00"},
]


def test_rows_stand_under_a_header_until_the_totals() -> None:
    assert values(ITEMS, language="de")["line_items"] == ROWS


def test_the_header_s_total_is_not_the_total_of_the_paper() -> None:
    assert values(ITEMS, language="de")["total_amount"] == {"amount": "1190.00", "currency": "EUR"}


def test_columns_of_spaces_do_as_well() -> None:
    found = values(
        "Description          Qty     Price      Total\nOak desk               2     10.00      20.00\nTotal   20.00"
    )
    assert found["line_items"] == [{"description": "Oak desk", "quantity": "2", "price": "10.00", "total": "20.00"}]


def test_an_unknown_header_does_no_harm_where_numbers_prove_themselves() -> None:
    found = values(
        "Ware\tWieviel\tje\tmacht\nBohrer\t10\t50,00\t500,00\nSäge\t5\t100,00\t500,00\nfertig\n", language="de"
    )
    assert [row["quantity"] for row in found["line_items"]] == ["10", "5"]


def test_a_table_goes_on_over_pages() -> None:
    head = "Item\tQty\tPrice\tTotal"
    pages = tuple(
        Page(number, (Line(head), Line(f"Thing {number}\t1\t2.00\t2.00"), Line("Page\t1"))) for number in (1, 2)
    )
    found = values(Document(Kind.PDF, "application/pdf", pages, "en"))["line_items"]
    assert [row["description"] for row in found] == ["Thing 1", "Thing 2"]


def test_narrow_gaps_between_columns_are_cut() -> None:
    page = placed(
        [(0.05, 0.1, "Item"), (0.4, 0.1, "Qty"), (0.6, 0.1, "PriceTotal")],
        [(0.05, 0.12, "Desk"), (0.4, 0.12, "2"), (0.6, 0.12, "10.00"), (0.65, 0.12, "20.00")],
    )
    assert values(page)["line_items"] == [{"description": "Desk", "quantity": "2", "price": "10.00", "total": "20.00"}]


def test_prose_with_the_words_of_a_header_is_no_table() -> None:
    assert "line_items" not in values("The description, the quantity and the price\nare in the annex.")


def test_rows_that_add_up_are_surer() -> None:
    wrong = ITEMS.replace("10\t50,00\t500,00", "10\t50,00\t700,00")
    assert sureness(wrong, "line_items") < sureness(ITEMS, "line_items")


def test_the_evidence_of_a_table_is_its_rows() -> None:
    (table,) = (each for each in mapped(ITEMS, language="de").suggestions if each.field == "line_items")
    assert table.evidence.quote.split("\n")[0] == "1\tBohrer 8 mm\t10\t50,00\t500,00"


def test_a_footer_below_is_not_the_last_description() -> None:
    found = values("Item\tQty\tPrice\tTotal\nDesk\t2\t10.00\t20.00\nwww.acme.example\nCompany no. 01234567")
    assert [row["description"] for row in found["line_items"]] == ["Desk"]
