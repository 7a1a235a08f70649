"""Values of fields as pages show them, and as forms send them back."""

from typing import Any

import pytest

from rowmill_systems.intake.web.values import kind_of, shown_value, value_from

EUROS = {"amount": "1", "currency": "EUR"}
ROWS = [{"description": "paper", "total": "9.50"}, {"description": "ink", "total": "3.00"}]


@pytest.mark.parametrize(
    ("value", "line", "kind"),
    [
        ({"amount": "119.00", "currency": "EUR"}, "119.00 EUR", "amount"),
        ({"amount": "119.00", "currency": None}, "119.00", "amount"),
        (ROWS, "2 rows", "json"),
        (["red", "blue"], "red, blue", "json"),
        ("Zürich", "Zürich", "text"),
        ({"name": "Zürich"}, '{"name": "Zürich"}', "json"),
        (12, "12", "json"),
    ],
)
def test_a_value_is_one_line_and_has_its_form(value: Any, line: str, kind: str) -> None:
    assert (shown_value(value), kind_of(value)) == (line, kind)


@pytest.mark.parametrize(
    ("before", "written", "after"),
    [
        (EUROS, {"amount": " 2.5 ", "currency": "usd"}, {"amount": "2.5", "currency": "USD"}),
        (EUROS, {"amount": "2", "currency": " "}, {"amount": "2", "currency": None}),
        ("a", {"text": " b\r\nc "}, "b\nc"),
        (ROWS, {"text": '[{"total": "1"}]'}, [{"total": "1"}]),
    ],
)  # fmt: skip
def test_a_written_value_is_of_the_kind_of_the_one_before(before: Any, written: dict[str, str], after: Any) -> None:
    assert value_from(before, **{"text": "", "amount": "", "currency": "", **written}) == after


@pytest.mark.parametrize(
    ("before", "written", "said"),
    [
        (EUROS, {"amount": " "}, "write an amount"),
        ("a", {"text": " "}, "write a value"),
        (ROWS, {"text": "[{"}, "write JSON"),
        (ROWS, {"text": "[" * 9000}, "write JSON"),
        ("a", {"text": "x" * 200_000}, "write at most"),
    ],
)
def test_what_is_no_value_is_refused_with_the_reason(before: Any, written: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        value_from(before, **{"text": "", "amount": "", "currency": "", **written})
