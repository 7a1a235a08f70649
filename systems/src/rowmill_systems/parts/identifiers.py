"""Identifiers that prove themselves by check digits: IBAN, VAT numbers, LEI, ISIN and others.

    from rowmill_systems.parts.identifiers import is_valid

    assert is_valid("iban", "DE89370400440532013000")
    assert not is_valid("iban", "DE89370400440532013001")
    assert is_valid("vat", "ATU13585627")

Write identifiers in upper case, without spaces or punctuation. The rules are those of python-stdnum.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache

from stdnum import bic, ean, iban, isbn, isin, iso11649, lei, luhn, numdb
from stdnum.ch import uid
from stdnum.util import get_cc_module

COMPACT = re.compile(r"[0-9A-Z]{2,50}")
VAT_COUNTRIES = (
    "AT", "BE", "BG", "CHE", "CY", "CZ", "DE", "DK", "EE", "EL", "ES", "FI", "FR", "GB", "HR", "HU", "IE", "IT", "LT",
    "LU", "LV", "MT", "NL", "PL", "PT", "RO", "SE", "SI", "SK", "XI",
)  # fmt: skip
"""Prefixes of VAT numbers. Northern Ireland has XI, Greece EL, and Swiss numbers begin with three letters."""
VAT_MODULES = {"CHE": "ch", "EL": "gr", "XI": "gb"}
BBAN_PART = re.compile(r"(\d+)!([nac])")


def is_valid(scheme: str, number: str) -> bool:
    """Tell whether a number is right: its characters, its length, its check digits. A BIC has no check digits.

    Raises LookupError for a scheme that is not in `SCHEMES`.
    """
    check = SCHEMES[scheme]
    return COMPACT.fullmatch(number) is not None and check(number)


def iban_length(country: str) -> int | None:
    """Return how many characters an IBAN of this country has; None if the country has none."""
    parts = _account_format(country)
    return 4 + sum(int(count) for count, _ in parts) if parts else None


def iban_has_letters(country: str) -> bool:
    """Tell whether account numbers of this country may have letters."""
    return any(kind != "n" for _, kind in _account_format(country))


@cache
def _account_format(country: str) -> list[tuple[str, str]]:
    (_, about), *_ = numdb.get("iban").info(country)
    return BBAN_PART.findall(about.get("bban", ""))


def _iban(number: str) -> bool:
    # Without the rules of single countries: they know banks by lists, and a new bank is in none.
    return iban.is_valid(number, check_country=False)


def _vat(number: str) -> bool:
    country = "CHE" if number.startswith("CHE") else number[:2]
    if country not in VAT_COUNTRIES:
        return False
    if country == "CHE" and number[-1].isdigit():  # written without MWST, TVA or IVA
        return uid.is_valid(number)
    module = get_cc_module(VAT_MODULES.get(country, country.lower()), "vat")
    return module is not None and module.is_valid(number)


def _not_zero(check: Callable[[str], bool]) -> Callable[[str], bool]:
    """Refuse rows of zeros, whose check digits are right."""
    return lambda number: bool(number.strip("0")) and check(number)


SCHEMES: Mapping[str, Callable[[str], bool]] = {
    "bic": bic.is_valid,
    "creditor": iso11649.is_valid,
    "ean": _not_zero(ean.is_valid),
    "iban": _iban,
    "isbn": _not_zero(isbn.is_valid),
    "isin": isin.is_valid,
    "lei": lei.is_valid,
    "luhn": _not_zero(luhn.is_valid),
    "vat": _vat,
}
