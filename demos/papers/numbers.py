"""Generate numbers with valid check digits, independently of the code that checks them."""

import random
from collections.abc import Callable, Mapping

BANKS = ("MARK", "NOVA", "LUXB", "ALPH", "REGI", "CITI", "HAND", "UNIO")

ACCOUNT_DIGITS = {"DE": 18, "FR": 23, "ES": 20, "IT": 22, "GB": 14, "CH": 17}


def some_digits(chance: random.Random, count: int) -> str:
    return str(chance.randint(1, 9)) + "".join(str(chance.randint(0, 9)) for _ in range(count - 1))


def iban(chance: random.Random, country: str) -> str:
    letters = {"IT": chance.choice("ABCXYZ"), "GB": chance.choice(BANKS)}.get(country, "")
    account = letters + some_digits(chance, ACCOUNT_DIGITS[country])
    number = int("".join(str(int(sign, 36)) for sign in f"{account}{country}00"))
    return f"{country}{98 - number % 97:02d}{account}"


def bic(chance: random.Random, country: str) -> str:
    place = chance.choice(("2X", "FF", "MM", "22", "PP", "HH"))
    return f"{chance.choice(BANKS)}{country}{place}{chance.choice(('', 'XXX', '380'))}"


def _luhn_digit(body: str) -> str:
    total = 0
    for place, sign in enumerate(reversed(body)):
        value = int(sign) * (2 if place % 2 == 0 else 1)
        total += value - 9 if value > 9 else value
    return str(-total % 10)


def _german(chance: random.Random) -> str:
    body = some_digits(chance, 8)
    product = 10
    for sign in body:
        total = (int(sign) + product) % 10
        product = 2 * (total if total else 10) % 11
    return f"DE{body}{(11 - product) % 10}"


def _french(chance: random.Random) -> str:
    body = some_digits(chance, 8)
    siren = body + _luhn_digit(body)
    return f"FR{(12 + 3 * (int(siren) % 97)) % 97:02d}{siren}"


def _spanish(chance: random.Random) -> str:
    body = some_digits(chance, 7)
    total = sum(int(sign) for sign in body[1::2])
    for sign in body[0::2]:
        doubled = 2 * int(sign)
        total += doubled // 10 + doubled % 10
    return f"ESB{body}{-total % 10}"


def _italian(chance: random.Random) -> str:
    digits = some_digits(chance, 9)
    body = f"0{digits[:6]}{int(digits[6:]) % 100 + 1:03d}"  # the last three name a province
    return f"IT{body}{_luhn_digit(body)}"


def _british(chance: random.Random) -> str:
    body = some_digits(chance, 7)
    total = sum(int(sign) * weight for sign, weight in zip(body, range(8, 1, -1), strict=True))
    return f"GB{body}{97 - total % 97:02d}"


def _swiss(chance: random.Random) -> str:
    while True:
        body = some_digits(chance, 8)
        check = -sum(int(sign) * weight for sign, weight in zip(body, (5, 4, 3, 2, 7, 6, 5, 4), strict=True)) % 11
        if check < 10:
            return f"CHE{body}{check}"


VAT: Mapping[str, Callable[[random.Random], str]] = {
    "DE": _german, "FR": _french, "ES": _spanish, "IT": _italian, "GB": _british, "CH": _swiss,
}  # fmt: skip


def ean13(chance: random.Random) -> str:
    body = "4" + some_digits(chance, 11)
    total = sum(int(sign) * (3 if place % 2 else 1) for place, sign in enumerate(body))
    return body + str(-total % 10)


def lei(chance: random.Random) -> str:
    body = (
        some_digits(chance, 4) + "00" + "".join(chance.choice("ABCDEFGHJKLMNPQRSTUVWXYZ0123456789") for _ in range(12))
    )
    number = int("".join(str(int(sign, 36)) for sign in body + "00"))
    return f"{body}{98 - number % 97:02d}"


def grouped(number: str, size: int = 4) -> str:
    return " ".join(number[place : place + size] for place in range(0, len(number), size))
