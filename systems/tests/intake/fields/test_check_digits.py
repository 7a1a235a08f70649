"""Public examples are right; with one digit changed they are not."""

from collections.abc import Callable

import pytest

from rowmill_systems.intake.fields import check_digits
from rowmill_systems.intake.fields.vat import CHECKS, vat

GOOD: dict[str, list[str]] = {
    "iban": [
        "DE89370400440532013000", "GB29NWBK60161331926819", "FR1420041010050500013M02606", "NL91ABNA0417164300",
        "CH9300762011623852957", "BE68539007547034", "AT611904300234573201", "ES9121000418450200051332",
        "IT60X0542811101000000123456", "PL61109010140000071219812874", "NO9386011117947",
    ],
    "lei": ["5493001KJTIIGC8Y1R12", "HWUPKR0MPOU8FGXBT394"],
    "creditor": ["RF18539007547034"],
    "isin": ["US0378331005", "DE0007164600", "GB0002634946"],
    "ean": ["4006381333931", "96385074", "036000291452"],
    "isbn": ["0306406152", "9780306406157", "080442957X"],
    "luhn": ["79927398713"],
}  # fmt: skip
VAT = [
    "ATU13585627", "BE0428759497", "DE136695976", "DK13585628", "ESA13585625", "ESB58378431", "ES54362315K",
    "ESX2482300W", "FI20774740", "FR40303265045", "FR83404833048", "GB980780684", "HR33392005961", "IE6433435F",
    "IE6433435OA", "IT00743110157", "LU15027442", "NL004495445B01", "NL002455799B11", "PL8567346215", "PT501964843",
    "SE123456789701", "CHE107787577IVA",
]  # fmt: skip
CASES = [(check_digits.CHECKS[scheme], number) for scheme, numbers in GOOD.items() for number in numbers]


@pytest.mark.parametrize(("check", "number"), CASES, ids=[number for _, number in CASES])
def test_a_known_number_is_right_and_each_slip_of_a_digit_is_not(check: Callable[[str], bool], number: str) -> None:
    assert check(number)
    assert [slip for slip in slips(number) if check(slip)] == []


@pytest.mark.parametrize("number", VAT)
def test_a_known_vat_number_is_right_and_nearly_all_slips_of_a_digit_are_not(number: str) -> None:
    assert vat(number)
    # The last two digits of a Dutch number count its holder's firms.
    wrong = [slip for slip in slips(number) if vat(slip) and (number[:2] != "NL" or slip[-2:] == number[-2:])]
    # Remainders of ten and more share a digit in some countries: a few slips cannot be told.
    assert len(wrong) <= len(slips(number)) * 0.15


def test_every_country_whose_digits_are_checked_is_tried() -> None:
    assert {country for country in CHECKS if any(number.startswith(country) for number in VAT)} == set(CHECKS) - {"XI"}


def test_a_bic_has_the_shape_and_a_country() -> None:
    assert check_digits.bic("DEUTDEFF")
    assert check_digits.bic("DEUTDEFF500")
    assert not check_digits.bic("DEUTDEFF5")
    assert not check_digits.bic("RECHXXNG")


@pytest.mark.parametrize("text", ["", "D", "DE", "DE٣٣", "ÄÖÜ", "FR", "0" * 99, "ES", "NLB01", "CHE"])
def test_what_is_no_number_is_refused_quietly(text: str) -> None:
    assert not any(check(text) for check in [*check_digits.CHECKS.values(), vat])


def slips(number: str) -> list[str]:
    """Each digit replaced by the next one."""
    places = [place for place, sign in enumerate(number) if sign.isdigit()]
    return [number[:place] + str((int(number[place]) + 1) % 10) + number[place + 1 :] for place in places]
