"""Value added tax numbers of Europe: their shapes, and their check digits where the rule is public and plain."""

import re
from collections.abc import Callable, Mapping, Sequence

from rowmill_systems.intake.fields.check_digits import digits, luhn

# Shapes without the country. Countries that are here and not in CHECKS are known by shape alone.
SHAPES: Mapping[str, re.Pattern[str]] = {
    country: re.compile(shape)
    for country, shape in {
        "AT": r"U\d{8}", "BE": r"[01]\d{9}", "BG": r"\d{9,10}", "CHE": r"\d{9}(?:MWST|TVA|IVA)?", "CY": r"\d{8}[A-Z]",
        "CZ": r"\d{8,10}", "DE": r"[1-9]\d{8}", "DK": r"\d{8}", "EE": r"\d{9}", "EL": r"\d{9}",
        "ES": r"[A-Z0-9]\d{7}[A-Z0-9]", "FI": r"\d{8}", "FR": r"[A-Z0-9]{2}\d{9}", "GB": r"\d{9}(?:\d{3})?",
        "HR": r"\d{11}", "HU": r"\d{8}", "IE": r"\d{7}[A-W][A-I]?", "IT": r"\d{11}", "LT": r"\d{9}(?:\d{3})?",
        "LU": r"\d{8}", "LV": r"\d{11}", "MT": r"\d{8}", "NL": r"\d{9}B\d{2}", "PL": r"\d{10}", "PT": r"\d{9}",
        "RO": r"\d{2,10}", "SE": r"\d{10}01", "SI": r"\d{8}", "SK": r"\d{10}", "XI": r"\d{9}(?:\d{3})?",
    }.items()
}  # fmt: skip


def vat(text: str) -> bool:
    """The number with its country, as DE136695976: its shape, and its check digits if we know them."""
    country = "CHE" if text[:3] == "CHE" else text[:2]
    shape, rest = SHAPES.get(country), text[len(country) :]
    if shape is None or not rest.isascii() or not shape.fullmatch(rest):
        return False
    check = CHECKS.get(country)
    return check is None or check(rest)


def proved(text: str) -> bool:
    """Whether the check digits of this number were looked at: without, only its shape speaks for it."""
    return vat(text) and ("CHE" if text[:3] == "CHE" else text[:2]) in CHECKS


def weighted(text: str, weights: Sequence[int]) -> int:
    return sum(int(sign) * weight for sign, weight in zip(text, weights, strict=False))


def _mod11_10(text: str) -> bool:
    product = 10
    for sign in text[:-1]:
        total = (int(sign) + product) % 10 or 10
        product = 2 * total % 11
    return (11 - product) % 10 == int(text[-1])


def _austria(text: str) -> bool:
    total = sum(sum(divmod(int(sign) * (1 + place % 2), 10)) for place, sign in enumerate(text[1:8]))
    return (10 - (total + 4) % 10) % 10 == int(text[8])


def _belgium(text: str) -> bool:
    return 97 - int(text[:8]) % 97 == int(text[8:])


def _denmark(text: str) -> bool:
    return weighted(text, (2, 7, 6, 5, 4, 3, 2, 1)) % 11 == 0


SPANISH_LETTERS = "TRWAGMYFPDXBNJZSQVHLCKE"


def _spain(text: str) -> bool:
    first, body, last = text[0], text[1:8], text[8]
    if first in "XYZ0123456789":
        number = str("XYZ".index(first)) + body if first in "XYZ" else first + body
        return SPANISH_LETTERS[int(number) % 23] == last
    odd = sum(sum(divmod(2 * int(sign), 10)) for sign in body[::2])
    check = -(odd + sum(map(int, body[1::2]))) % 10
    return last in (str(check), "JABCDEFGHI"[check])


def _finland(text: str) -> bool:
    return weighted(text, (7, 9, 10, 5, 8, 4, 2, 1)) % 11 == 0


def _france(text: str) -> bool:
    if not luhn(text[2:]):
        return False
    return not digits(text[:2]) or (12 + 3 * (int(text[2:]) % 97)) % 97 == int(text[:2])


def _britain(text: str) -> bool:
    total = weighted(text, (8, 7, 6, 5, 4, 3, 2, 10, 1))
    return total % 97 == 0 or (total + 55) % 97 == 0


def _ireland(text: str) -> bool:
    total = weighted(text, (8, 7, 6, 5, 4, 3, 2)) + (9 * (ord(text[8]) - 64) if len(text) > 8 else 0)
    return "WABCDEFGHIJKLMNOPQRSTUV"[total % 23] == text[7]


def _luxembourg(text: str) -> bool:
    return int(text[:6]) % 89 == int(text[6:])


def _netherlands(text: str) -> bool:
    """The old numbers have a check digit of their own; those of sole traders, since 2020, are mod 97 as a whole."""
    if weighted(text, (9, 8, 7, 6, 5, 4, 3, 2, -1)) % 11 == 0:
        return True
    return int("".join(str(int(sign, 36)) for sign in "NL" + text)) % 97 == 1


def _poland(text: str) -> bool:
    return weighted(text, (6, 5, 7, 2, 3, 4, 5, 6, 7)) % 11 == int(text[9])


def _portugal(text: str) -> bool:
    return (11 - weighted(text, (9, 8, 7, 6, 5, 4, 3, 2)) % 11) % 11 % 10 == int(text[8])


def _switzerland(text: str) -> bool:
    return (11 - weighted(text, (5, 4, 3, 2, 7, 6, 5, 4)) % 11) % 11 == int(text[8])


CHECKS: Mapping[str, Callable[[str], bool]] = {
    "AT": _austria, "BE": _belgium, "CHE": _switzerland, "DE": _mod11_10, "DK": _denmark, "ES": _spain, "FI": _finland,
    "FR": _france, "GB": _britain, "HR": _mod11_10, "IE": _ireland, "IT": luhn, "LU": _luxembourg, "NL": _netherlands,
    "PL": _poland, "PT": _portugal, "SE": lambda text: luhn(text[:10]), "XI": _britain,
}  # fmt: skip
