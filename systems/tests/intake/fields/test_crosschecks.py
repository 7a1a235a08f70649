"""Values prove each other, or cast doubt on each other."""

from rowmill_systems.intake.fields.confidence import confidence
from systems.tests.intake.fields.sheets import mapped, sureness, values


def test_amounts_that_add_up_are_surer() -> None:
    right = "Net amount: 100.00\nVAT 19%: 19.00\nTotal: 119.00"
    wrong = right.replace("119.00", "191.00")
    for field in ("net_amount", "tax_amount", "total_amount"):
        assert sureness(wrong, field) < sureness(right, field)


def test_of_several_totals_the_one_that_adds_up_wins() -> None:
    text = "Total: 50.00\nNet amount: 100.00\nVAT 20%: 20.00\nTotal: 120.00\nTotal: 130.00"
    assert values(text)["total_amount"]["amount"] == "120.00"


def test_amounts_without_known_words_are_found_if_they_add_up() -> None:
    found = values("Ohne\t100,00 €\nAbgabe 19 %\t19,00 €\nMit\t119,00 €", language="de")
    assert [found[key]["amount"] for key in ("net_amount", "tax_amount", "total_amount")] == [
        "100.00",
        "19.00",
        "119.00",
    ]
    assert found["tax_rate"] == "19"


def test_a_due_date_before_the_day_of_issue_is_doubtful() -> None:
    late = sureness("Date: 2026-03-31\nDue date: 2026-04-30", "due_date")
    early = sureness("Date: 2026-03-31\nDue date: 2026-02-28", "due_date")
    assert early < late


def test_a_rate_that_makes_the_tax_is_surer() -> None:
    text = "Net amount: 100.00\nVAT 20%: 20.00\nTotal: 120.00"
    assert sureness(text.replace("20%", "7%"), "tax_rate") < sureness(text, "tax_rate")


def test_two_values_for_one_field_cost_confidence() -> None:
    one = sureness("Invoice date: 31.03.2026", "issue_date")
    two = sureness("Invoice date: 31.03.2026\nInvoice date: 01.04.2026", "issue_date")
    assert two < one


def test_one_place_is_the_value_of_one_field_of_a_type() -> None:
    found = [each.evidence.quote for each in mapped("Invoice date / Due date: 31.03.2026").suggestions]
    assert len(found) == len(set(found))


def test_confidence_grows_with_the_score_and_is_less_on_scans() -> None:
    steps = [confidence(score / 20, scanned=False) for score in range(21)]
    assert steps == sorted(steps)
    assert all(0 <= confidence(score / 20, scanned=True) <= steps[score] <= 1 for score in range(21))
