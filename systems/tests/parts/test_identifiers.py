"""Public examples are right; with one digit changed they are not."""

import pytest

from rowmill_systems.parts.identifiers import SCHEMES, VAT_COUNTRIES, iban_has_letters, iban_length, is_valid

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
    "SE123456789701", "CHE107787577IVA", "CHE107787577", "XI980780684", "BG175074752", "CY10259033P", "CZ25123891",
    "EE100931558", "EL094259216", "HU12892312", "LT119511515", "LV40003521600", "MT11679112", "RO18547290",
    "SI50223054", "SK2022749619",
]  # fmt: skip
CASES = [(scheme, number) for scheme, numbers in GOOD.items() for number in numbers]


@pytest.mark.parametrize(("scheme", "number"), CASES, ids=[number for _, number in CASES])
def test_a_known_number_is_valid_and_no_slip_of_a_digit_is(scheme: str, number: str) -> None:
    assert is_valid(scheme, number)
    assert [slip for slip in slips(number) if is_valid(scheme, slip)] == []


@pytest.mark.parametrize("number", VAT)
def test_a_known_vat_number_is_valid_and_nearly_no_slip_of_a_digit_is(number: str) -> None:
    assert is_valid("vat", number)
    # The last two digits of a Dutch number count its holder's firms.
    wrong = [
        slip for slip in slips(number) if is_valid("vat", slip) and (number[:2] != "NL" or slip[-2:] == number[-2:])
    ]
    # Remainders of ten and more share a digit in some countries: a few slips can't be detected.
    assert len(wrong) <= len(slips(number)) * 0.15


def test_there_is_an_example_of_every_country_and_scheme() -> None:
    assert {country for country in VAT_COUNTRIES if any(number.startswith(country) for number in VAT)} == set(
        VAT_COUNTRIES
    )
    assert set(GOOD) | {"vat", "bic"} == set(SCHEMES)


def test_a_bic_has_the_shape_and_a_country() -> None:
    assert is_valid("bic", "DEUTDEFF")
    assert is_valid("bic", "DEUTDEFF500")
    assert not is_valid("bic", "DEUTDEFF5")
    assert not is_valid("bic", "RECHXXNG")


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    "text",
    ["", "D", "DE", "DE٣٣", "ÄÖÜ", "FR", "0" * 8, "0" * 10, "0" * 13, "0" * 99, "ES", "NLB01", "CHE", "de136695976",
     "DE89 3704 0044 0532 0130 00"],
)  # fmt: skip
def test_other_text_is_not_valid(scheme: str, text: str) -> None:
    assert not is_valid(scheme, text)


def test_an_unknown_scheme_is_an_error() -> None:
    with pytest.raises(LookupError):
        is_valid("horoscope", "4711")


@pytest.mark.parametrize(("country", "length", "letters"), [("DE", 22, False), ("GB", 22, True), ("US", None, False)])
def test_the_form_of_ibans(country: str, length: int | None, letters: bool) -> None:
    assert (iban_length(country), iban_has_letters(country)) == (length, letters)


def slips(number: str) -> list[str]:
    """Replace each digit by the next one."""
    places = [place for place, sign in enumerate(number) if sign.isdigit()]
    return [number[:place] + str((int(number[place]) + 1) % 10) + number[place + 1 :] for place in places]
