"""Numbers that can be proved right by their own digits. All take compact upper-case text, and never raise."""

import re
from collections.abc import Callable, Mapping

# Lengths of the IBAN registry.
IBAN_LENGTHS: Mapping[str, int] = {
    "AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BI": 27,
    "BR": 29, "BY": 28, "CH": 21, "CR": 22, "CY": 28, "CZ": 24, "DE": 22, "DJ": 27, "DK": 18, "DO": 28,
    "EE": 20, "EG": 29, "ES": 24, "FI": 18, "FK": 18, "FO": 18, "FR": 27, "GB": 22, "GE": 22, "GI": 23,
    "GL": 18, "GR": 27, "GT": 28, "HR": 21, "HU": 28, "IE": 22, "IL": 23, "IQ": 23, "IS": 26, "IT": 27,
    "JO": 30, "KW": 30, "KZ": 20, "LB": 28, "LC": 32, "LI": 21, "LT": 20, "LU": 20, "LV": 21, "LY": 25,
    "MC": 27, "MD": 24, "ME": 22, "MK": 19, "MN": 20, "MR": 27, "MT": 31, "MU": 30, "NI": 28, "NL": 18,
    "NO": 15, "OM": 23, "PK": 24, "PL": 28, "PS": 29, "PT": 25, "QA": 29, "RO": 24, "RS": 22, "RU": 33,
    "SA": 24, "SC": 31, "SD": 18, "SE": 24, "SI": 19, "SK": 24, "SM": 27, "SO": 23, "ST": 25, "SV": 28,
    "TL": 23, "TN": 24, "TR": 26, "UA": 29, "VA": 22, "VG": 24, "XK": 20,
}  # fmt: skip
# Account numbers of these countries may have letters; of all others they are digits.
IBAN_WITH_LETTERS = frozenset({
    "AD", "AL", "AZ", "BG", "BH", "BR", "BY", "CH", "CY", "DO", "EG", "FO", "FR", "GB", "GE", "GI", "GL", "GR",
    "GT", "IE", "IQ", "IT", "JO", "KW", "KZ", "LB", "LC", "LI", "LU", "LV", "MC", "MD", "MK", "MT", "MU", "NI",
    "NL", "OM", "PK", "PS", "QA", "RO", "RU", "SA", "SC", "SM", "SV", "TR", "UA", "VG",
})  # fmt: skip
COUNTRIES = frozenset(IBAN_LENGTHS) | frozenset({
    "AM", "AR", "AU", "CA", "CL", "CN", "CO", "DZ", "HK", "IN", "JP", "KE", "KR", "MA", "MX", "MY", "NG", "NZ",
    "PE", "PH", "SG", "TH", "TW", "US", "UZ", "VN", "ZA",
})  # fmt: skip
ALPHANUMERIC = re.compile(r"[0-9A-Z]+")


def mod97(text: str) -> int:
    """ISO 7064 mod 97: letters count as 10 to 35. -1 for what is not plain letters and digits."""
    if not ALPHANUMERIC.fullmatch(text):
        return -1
    rest = 0
    for sign in text:
        value = int(sign, 36)
        rest = (rest * (100 if value > 9 else 10) + value) % 97
    return rest


def luhn(text: str) -> bool:
    if not digits(text) or not text.strip("0"):
        return False
    doubled = (sum(divmod(2 * int(sign), 10)) for sign in text[-2::-2])
    return (sum(map(int, text[::-2])) + sum(doubled)) % 10 == 0


def digits(text: str) -> bool:
    """Only 0 to 9: other scripts' digits would pass `isdigit`."""
    return text.isascii() and text.isdigit()


def iban(text: str) -> bool:
    country, account = text[:2], text[4:]
    if IBAN_LENGTHS.get(country) != len(text) or not digits(text[2:4]) or mod97(account + text[:4]) != 1:
        return False
    return country in IBAN_WITH_LETTERS or digits(account)


def lei(text: str) -> bool:
    return len(text) == 20 and digits(text[18:]) and mod97(text) == 1


def creditor(text: str) -> bool:
    """An RF creditor reference, ISO 11649."""
    return 5 <= len(text) <= 25 and text[:2] == "RF" and digits(text[2:4]) and mod97(text[4:] + text[:4]) == 1


def isin(text: str) -> bool:
    if len(text) != 12 or not text[:2].isalpha() or not digits(text[-1]) or not ALPHANUMERIC.fullmatch(text):
        return False
    return luhn("".join(str(int(sign, 36)) for sign in text))


def ean(text: str) -> bool:
    """GTIN-8, -12, -13 and -14."""
    if not digits(text) or len(text) not in (8, 12, 13, 14) or not int(text):
        return False
    return (sum(map(int, text[-1::-2])) + 3 * sum(map(int, text[-2::-2]))) % 10 == 0


def isbn(text: str) -> bool:
    if len(text) == 10 and digits(text[:9]) and (digits(text[9]) or text[9] == "X"):
        values = [*map(int, text[:9]), 10 if text[9] == "X" else int(text[9])]
        return sum(weight * value for weight, value in zip(range(10, 0, -1), values, strict=True)) % 11 == 0
    return len(text) == 13 and text[:3] in ("978", "979") and ean(text)


BIC = re.compile(r"[A-Z]{4}[A-Z]{2}[A-Z0-9]{2}(?:[A-Z0-9]{3})?")


def bic(text: str) -> bool:
    """It has no check digits: its shape and its country have to do."""
    return BIC.fullmatch(text) is not None and text[4:6] in COUNTRIES


CHECKS: Mapping[str, Callable[[str], bool]] = {
    "iban": iban, "lei": lei, "creditor": creditor, "isin": isin, "ean": ean, "isbn": isbn, "bic": bic, "luhn": luhn,
}  # fmt: skip
