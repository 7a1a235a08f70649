"""Find numbers with a scheme by their form, and keep those whose check digits are right.

OCR confuses letters and digits. A number is corrected only if its check digits are right then, which is hardly ever so
by chance.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from rowmill_systems.intake.fields.folding import TO_DIGIT
from rowmill_systems.parts.identifiers import VAT_COUNTRIES, iban_has_letters, iban_length, is_valid

TO_LETTER = str.maketrans({"0": "O", "1": "I", "5": "S", "8": "B", "2": "Z", "6": "G"})
SEPARATORS = re.compile(r"[\s.\-/·]+")
LONGEST = 48


def _confused(letters: str) -> str:
    """Return a pattern for letters, or for what OCR makes of them."""
    looks = {"I": "[I1l|]", "S": "[S5]", "B": "[B8]", "Z": "[Z2]", "O": "[O0]", "G": "[G6]"}
    if all(letter in looks for letter in letters):  # as digits, it would be any number
        return letters
    return "".join(looks.get(letter, letter) for letter in letters)


# Where a number of a scheme may begin; what follows is read sign by sign, up to its longest length.
STARTS: Mapping[str, re.Pattern[str]] = {
    "iban": re.compile(r"(?<![^\W_])[A-Z]{2}[\s-]?[0-9OIlSBZQDG]{2}(?=[\s-]?[0-9A-Za-z])"),
    "vat": re.compile(rf"(?<![^\W_])(?:{'|'.join(map(_confused, VAT_COUNTRIES))})(?=[\s.-]?[0-9A-Zl|])"),
    "lei": re.compile(r"(?<![^\W_])[0-9A-Z]{18}[0-9OIlSBZ]{2}(?![^\W_])"),
    "isin": re.compile(r"(?<![^\W_])[A-Z]{2}[0-9A-Z]{9}[0-9OIlSBZ](?![^\W_])"),
    "creditor": re.compile(r"(?<![^\W_])RF[0-9OIlSBZ]{2}(?=[\s]?[0-9A-Z])"),
    "ean": re.compile(r"(?<![^\W_])[0-9OIlSBZ](?:[ -]?[0-9OIlSBZ]){7,13}(?![^\W_])"),
    "isbn": re.compile(r"(?<![^\W_])[0-9OIlSBZ](?:[ -]?[0-9OIlSBZ]){8,11}[ -]?[0-9OIlSBZX](?![^\W_])"),
    "luhn": re.compile(r"(?<![^\W_])\d(?:[ -]?\d){5,18}(?![^\W_])"),
    "bic": re.compile(r"(?<![^\W_])[A-Z]{4}[ ]?[A-Z]{2}[ ]?[A-Z0-9]{2}(?:[ ]?[A-Z0-9]{3})?(?![^\W_])"),
    "register": re.compile(
        r"(?<![^\W_])(?:HR ?[AB] ?(?:Nr\.? ?)?\d{1,6}(?: ?[A-Z])?|GnR ?\d{1,5}|FN ?\d{5,6} ?[a-z]"
        r"|RCS [A-ZÀ-Ýa-zà-ÿ-]{3,20}(?: [AB])? ?\d{3} ?\d{3} ?\d{3}|CHE-\d{3}\.\d{3}\.\d{3}|[A-Z]{2}[ -]\d{6,7}"
        r"|(?:OC|SC|NI)?\d{6,8}|\d{3} \d{3} \d{3}(?: \d{5})?|[0-9A-Z]{18})(?![^\W_])"
    ),
}  # fmt: skip
# Whose whole match is the number. The others are read on from where they begin.
WHOLE = {"lei", "isin", "ean", "isbn", "luhn", "bic", "register"}
LENGTHS: Mapping[str, range] = {"vat": range(16, 7, -1), "creditor": range(25, 4, -1)}


@dataclass(frozen=True, slots=True)
class IdReading:
    start: int
    end: int
    value: str
    proved: bool
    """Its check digits are right."""
    mended: bool = False


def find_ids(scheme: str, text: str) -> list[IdReading]:
    """Return all numbers of this scheme in a text, from left to right; none for an unknown scheme."""
    found: list[IdReading] = []
    start_of = STARTS.get(scheme)
    place = 0
    while start_of and (match := start_of.search(text, place)):
        reading = _whole(scheme, match) if scheme in WHOLE else _read_on(scheme, text, match.start())
        if reading:
            found.append(reading)
        place = reading.end if reading else match.start() + 1
    return found


def _whole(scheme: str, match: re.Match[str]) -> IdReading | None:
    if scheme == "register":
        value = re.sub(r"\s+", " ", match.group()).strip()
        return IdReading(match.start(), match.end(), value, proved=False)
    value = SEPARATORS.sub("", match.group())
    for candidate in (value, _mended(scheme, value)):
        if is_valid(scheme, candidate):
            return IdReading(match.start(), match.end(), candidate, proved=scheme != "bic", mended=candidate != value)
    return None


def _read_on(scheme: str, text: str, start: int) -> IdReading | None:
    """Return the longest valid number that begins here."""
    signs = list(islice(_signs(text, start), LONGEST))
    compact = "".join(sign for _, sign in signs)
    for length in _lengths(scheme, compact):
        if len(compact) < length or not _ends_word(text, signs[length - 1][0]):
            continue
        value = compact[:length]
        for candidate in (value.upper(), _mended(scheme, value)):
            if is_valid(scheme, candidate):
                return IdReading(start, signs[length - 1][0] + 1, candidate, proved=True, mended=candidate != value)
    return None


def _signs(text: str, start: int) -> Iterator[tuple[int, str]]:
    """Yield letters and digits with their places, across single separators."""
    gap = 0
    for place in range(start, min(len(text), start + 2 * LONGEST)):
        sign = text[place]
        if sign.isascii() and sign.isalnum():
            gap = 0
            yield place, sign
        elif gap or sign not in " \u00a0.-":
            return
        else:
            gap += 1


def _ends_word(text: str, place: int) -> bool:
    return place + 1 >= len(text) or not text[place + 1].isalnum()


def _lengths(scheme: str, compact: str) -> range:
    if scheme == "iban":
        length = iban_length(compact[:2])
        return range(length, length - 1, -1) if length else range(0)
    return LENGTHS[scheme]


def _mended(scheme: str, value: str) -> str:
    """Return the number with digits where the scheme has digits."""
    mend: Callable[[str], str] = lambda part: part.translate(TO_DIGIT)  # noqa: E731
    if scheme in ("ean", "luhn", "isbn"):
        return mend(value[:-1]) + (value[-1] if value[-1] == "X" else mend(value[-1]))
    if scheme == "iban" and not iban_has_letters(value[:2]):
        return value[:2] + mend(value[2:])
    if scheme == "iban":
        return value[:2] + mend(value[2:4]) + _account(value[:2], value[4:]).upper()
    if scheme == "lei":
        return value[:18] + mend(value[18:])
    if scheme == "bic":
        return value[:6].translate(TO_LETTER) + value[6:]
    if scheme == "vat":
        value = value[:2].replace("l", "I").replace("|", "I").translate(TO_LETTER) + value[2:]
        letters = {"ATU": 3, "CHE": 3, "ES": 3, "FR": 4}.get(value[:3], {"ES": 3, "FR": 4}.get(value[:2], 2))
        head, tail = value[:letters], value[letters:]
        if value[:2] == "NL" and len(tail) == 12:
            return head + mend(tail[:9]) + "B" + mend(tail[10:])
        return head + mend(tail)
    return value[:2] + mend(value[2:4]) + value[4:] if scheme == "creditor" else value


def _account(country: str, account: str) -> str:
    """Correct an account number of countries where only the bank's part has letters."""
    bank = {"GB": (0, 4), "NL": (0, 4), "IE": (0, 4), "IT": (0, 1), "SM": (0, 1), "FR": (10, 21)}.get(country)
    if bank is None:
        return account
    left, right = bank
    middle = account[left:right]
    middle = middle.translate(TO_LETTER) if country != "FR" and not middle.isdigit() else middle
    return account[:left].translate(TO_DIGIT) + middle + account[right:].translate(TO_DIGIT)
