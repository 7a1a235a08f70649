import pytest

from rowmill_systems.intake.fields.amounts import find_amounts, main_currency


@pytest.mark.parametrize(
    ("text", "amount", "currency"),
    [
        ("1.190,00 €", "1190.00", "EUR"), ("EUR 1,190.00", "1190.00", "EUR"), ("$1,190.00", "1190.00", "USD"),
        ("1'190.50 CHF", "1190.50", "CHF"), ("(1,190.00)", "-1190.00", None), ("-5,00", "-5.00", None),
        ("1.190,00-", "-1190.00", None), ("−€ 12.00", "-12.00", "EUR"), ("1 190,00 €", "1190.00", "EUR"),
        ("1\u00a0190,00", "1190.00", None), ("1\u202f190,00 €", "1190.00", "EUR"), ("¥1,190.00", "1190.00", "CNY"),
        ("1190.00元", "1190.00", "CNY"), ("1,00,000.00", "100000.00", None), ("€1.190,-", "1190", "EUR"),
        ("Fr. 1'200.–", "1200", "CHF"), ("1.234.567,89", "1234567.89", None), ("1.19O,0l €", "1190.01", "EUR"),
        ("US$ 7.50", "7.50", "USD"), ("1.190", "1190", None), ("0.500", "0.500", None), ("12", "12", None),
    ],
)  # fmt: skip
def test_an_amount_is_read_in_many_forms(text: str, amount: str, currency: str | None) -> None:
    (found,) = find_amounts(text)
    assert (str(found.amount), found.currency) == (amount, currency)
    assert text[found.start : found.end] == text


@pytest.mark.parametrize("text", ["19 %", "19,00 %", "31.03.2026", "12.34.56", "A12", "1,23,4", "no number"])
def test_percentages_dates_and_codes_are_no_amounts(text: str) -> None:
    assert find_amounts(text) == []


def test_brackets_around_more_are_not_its_sign() -> None:
    (found,) = find_amounts("(incl. 12.00)")
    assert str(found.amount) == "12.00"


def test_the_currency_that_is_named_most_is_the_document_s() -> None:
    assert main_currency(["Total EUR 5", "in USD: $ 6", "7 €", "8 €"]) == "EUR"
    assert main_currency(["no money here"]) is None
