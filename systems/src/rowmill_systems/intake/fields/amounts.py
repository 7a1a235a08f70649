"""Find amounts of money, with any thousands separator and any place of currency and sign."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from rowmill_systems.intake.fields.folding import mend_digits
from rowmill_systems.intake.fields.words import symbols, words

CODES = words("currencies")
SYMBOLS = symbols()
CURRENCY = "|".join(re.escape(word) for word in sorted([*CODES, *SYMBOLS], key=len, reverse=True))
SPACE = "[ \u00a0\u202f\u2009]"
# Digits in groups of three behind a space or an apostrophe; or digits with points and commas as they come.
NUMBER = (
    rf"(?:\d{{1,3}}(?:{SPACE}\d{{3}}(?!\d))+(?:[.,]\d{{1,4}}(?!\d))?|\d{{1,3}}(?:['’´]\d{{3}}(?!\d))+(?:[.,]\d{{1,4}}(?!\d))?"
    r"|\d{1,15}(?:[.,]\d{1,6}){0,5})(?:[.,](?:-{1,2}|–|—)(?!\d))?"
)
AMOUNT = re.compile(
    rf"(?<![\w.,])(?<!\d[-:/])(?P<open>\()?{SPACE}?(?P<sign>[-−–+])?{SPACE}?(?:(?P<before>{CURRENCY}){SPACE}{{0,2}})?(?P<sign2>[-−–])?{SPACE}?"
    rf"(?P<number>{NUMBER})(?P<sign3>-(?![\w]))?(?:{SPACE}?(?P<after>{CURRENCY})(?![^\W\d_]))?(?P<close>{SPACE}?\))?(?P<percent>{SPACE}?[%‰])?"
    r"(?![^\W_]|[.,:/-]\d)"
)
ALONE = re.compile(rf"(?<![^\W\d_])(?:{CURRENCY})(?![^\W\d_])")


@dataclass(frozen=True, slots=True)
class AmountReading:
    start: int
    end: int
    amount: Decimal
    currency: str | None
    exact: bool
    """It has decimals or a currency: a bare `12` may be anything."""


def find_amounts(text: str) -> list[AmountReading]:
    """Return all amounts of a text, from left to right, without percentages and parts of dates and longer numbers."""
    found = []
    for match in AMOUNT.finditer(mend_digits(text)):
        if match.group("percent"):
            continue
        number, decimals = parse_number(match.group("number"))
        if number is None:
            continue
        word = match.group("before") or match.group("after")
        negative = match.group("sign") in ("-", "−", "–") or match.group("sign2") or match.group("sign3")
        bracketed = match.group("open") and match.group("close")
        amount = -number if negative or bracketed else number
        start, end = _trimmed(match, bool(bracketed))
        found.append(AmountReading(start, end, amount, currency_of(word), decimals or word is not None))
    return found


def _trimmed(match: re.Match[str], bracketed: bool) -> tuple[int, int]:
    """Strip spaces and unbalanced brackets."""
    start, end = match.span()
    if not bracketed:
        names = ("sign", "before", "sign2", "number", "sign3", "after")
        spans = [match.span(name) for name in names if match.group(name)]
        start, end = spans[0][0], spans[-1][1]
    text = match.string[start:end]
    return start + len(text) - len(text.lstrip()), end - len(text) + len(text.rstrip())


def parse_number(text: str) -> tuple[Decimal | None, bool]:
    """Return the number, and whether it has decimals.

    Of two kinds of separators the last is the decimal one; a single one is decimal too, unless exactly three digits
    follow.
    """
    text = text.strip()
    dashed = re.search(r"[.,][-–—]+$", text)
    if dashed:
        text = text[: dashed.start()]
    bare = re.sub(rf"{SPACE}|['’´]", "", text)
    grouped = len(bare) < len(text)
    last = max(bare.rfind("."), bare.rfind(","))
    if last < 0:
        return Decimal(bare), dashed is not None
    whole, tail = bare[:last], bare[last + 1 :]
    kinds = {sign for sign in bare if sign in ".,"}
    decimal = grouped or len(kinds) == 2 or (bare.count(bare[last]) == 1 and (len(tail) != 3 or whole == "0"))
    head = re.sub(r"[.,]", "", whole)
    if not decimal:
        groups = re.split(r"[.,]", bare)
        if any(len(group) != 3 for group in groups[1:]):
            return None, False
        return Decimal(head + tail), dashed is not None
    if len(tail) > 4 or not _grouped_well(whole):
        return None, False
    return Decimal(f"{head}.{tail}"), True


def _grouped_well(whole: str) -> bool:
    """Tell whether digits are grouped by thousands, or by lakhs and crores."""
    groups = re.split(r"[.,]", whole)
    return len(groups) == 1 or (len(groups[-1]) == 3 and all(len(group) in (2, 3) for group in groups[1:-1]))


def currency_of(word: str | None) -> str | None:
    if word is None:
        return None
    return SYMBOLS.get(word, word)


def main_currency(lines: Iterable[str]) -> str | None:
    """Return the currency that a document names most often."""
    counts = Counter(currency_of(match.group()) for line in lines for match in ALONE.finditer(line))
    return counts.most_common(1)[0][0] if counts else None


def money(reading: AmountReading, fallback: str | None) -> dict[str, str | None]:
    """Return the value of a suggestion: {"amount": "1190.00", "currency": "EUR"}."""
    return {"amount": f"{reading.amount:.2f}" if reading.amount == round(reading.amount, 2) else str(reading.amount),
            "currency": reading.currency or fallback}  # fmt: skip
