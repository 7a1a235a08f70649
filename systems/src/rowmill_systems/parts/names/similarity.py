"""How similar two names are, word by word."""

import re

from rapidfuzz.distance import OSA

from rowmill_systems.parts.names.company_analysis import analyze_company
from rowmill_systems.parts.names.company_matching import SAME_FROM, MatchVerdict, compare_companies
from rowmill_systems.parts.names.folding import words
from rowmill_systems.parts.names.person_matching import compare_people
from rowmill_systems.parts.names.readings import GENERIC, TITLE, NameReading, readings
from rowmill_systems.parts.names.types import EntityType

SURE_FROM = 0.9
"""The comparison of companies forgives a slip; a link in a text needs more."""
SAME_WITHOUT_SPACES = 0.98
ANOTHER_ORDER = 0.98
SURNAME_ALONE = 0.83
ACRONYM_OF_TWO, ACRONYM = 0.8, 0.88
INITIAL_FOR_A_NAME = 0.9
EACH_HAS_ITS_OWN = 0.7
"""Factor if each name has a word that the other lacks: Manchester United, Manchester City."""
OTHER_NUMBER, A_NUMBER_MORE, NUMBER_IN_ONE = 0.3, 0.7, 0.6
OTHER_GENERATION, GENERATION_IN_ONE = 0.3, 0.85
MIDDLE_NAME = 0.5
"""Weight of a middle name that the other leaves out."""
SLIP, SECOND_SLIP, FIRST_LETTER = 0.8, 0.1, 0.15
"""Cost of a wrong letter, by the length of the word; extra cost of a second one, and of the first letter: Austria is
not Australia, and Gambia not Zambia."""
_VESSEL = re.compile(r"^\s*(?:m[./]?[vts]\.?|s[./]s\.?|f/?v|lng/?c|vessel|the vessel)\s+(?=\w)", re.IGNORECASE)
"""What stands in front of a ship's name."""
_DIGIT = re.compile(r"\d")
_UMLAUTS = (("ae", "a"), ("oe", "o"), ("ue", "u"))


def name_similarity(one: str, other: str, type: EntityType | None = None) -> float:
    """Return how similar two names are, from 0 to 1, by the two most similar ways to read them."""
    if type is EntityType.PERSON:
        return compare_people(one, other).score
    if type is EntityType.OTHER:
        one, other = _VESSEL.sub("", one) or one, _VESSEL.sub("", other) or other
    ways = ((first, second) for first in readings(one, type) for second in readings(other, type))
    best = max((similarity(first, second, type) for first, second in ways), default=0.0)
    if type is not EntityType.ORGANISATION:
        return best
    match = compare_companies(one, other)
    if match.verdict is MatchVerdict.DIFFERENT and analyze_company(one).normal and analyze_company(other).normal:
        return min(best, SAME_FROM - 0.01)  # something tells the two apart, whatever the words say
    return max(best, match.score if match.verdict is MatchVerdict.SAME else 0.0)


def same_company(one: str, other: str) -> float:
    """Return the score of two names that are of the same company, as the comparison of companies says; otherwise 0.

    It knows more legal forms, abbreviations and scripts. Where it does not say "same", the words decide: a short name
    in a text, such as Heineken, means the company that a register calls Heineken International.
    """
    match = compare_companies(one, other)
    return match.score if match.score >= SURE_FROM else 0.0


def similarity(one: NameReading, other: NameReading, type: EntityType | None) -> float:
    """Return how similar two readings are, from 0 to 1.

    Words that only one of them has count against it, by their weight; so do other numbers and generations.
    """
    same = one.squashed == other.squashed
    value = (1.0 if one.words == other.words else SAME_WITHOUT_SPACES) if same else _by_words(one, other, type)
    if one.numbers != other.numbers and not same:
        both = one.numbers and other.numbers
        within = one.numbers < other.numbers or other.numbers < one.numbers
        value *= (A_NUMBER_MORE if within else OTHER_NUMBER) if both else NUMBER_IN_ONE
    if one.generation != other.generation:
        value *= OTHER_GENERATION if one.generation and other.generation else GENERATION_IN_ONE
    return value


def acronym(short: str, long: NameReading) -> float:
    """Return more than 0 if `short` is made of the first letters of `long`: UN, of United Nations."""
    letters = "".join(words(short)) if short.isupper() else ""
    if not 2 <= len(letters) <= 6 or len(long.words) < 2 or long.numbers:
        return 0.0
    all_of_them = "".join(word[0] for word in long.words)
    heavy = "".join(word[0] for word, weight in zip(long.words, long.weights, strict=True) if weight >= GENERIC)
    if letters not in (all_of_them, heavy):
        return 0.0
    return ACRONYM_OF_TWO if len(letters) == 2 else ACRONYM


def _by_words(one: NameReading, other: NameReading, type: EntityType | None) -> float:
    """Return the weight of the words that both have, as a share of the weight of all."""
    if one.words == other.words:
        return 1.0
    pairs = _pairs(one.words, other.words, type)
    shared = sum(alike * (one.weights[left] + other.weights[right]) for left, right, alike in pairs)
    rest_of_one = _left_over(one, {left for left, _, _ in pairs}, type)
    rest_of_other = _left_over(other, {right for _, right, _ in pairs}, type)
    paired = sum(one.weights[left] + other.weights[right] for left, right, _ in pairs)
    numbers = 2.0 * len(one.numbers & other.numbers)
    value = (shared + numbers) / (paired + numbers + sum(rest_of_one) + sum(rest_of_other))
    if max(rest_of_one, default=0) >= GENERIC and max(rest_of_other, default=0) >= GENERIC:
        value *= EACH_HAS_ITS_OWN
    if _is_surname(one, other, type):
        value = max(value, SURNAME_ALONE)
    return value * ANOTHER_ORDER if _crossed(pairs) else value


def _pairs(ones: tuple[str, ...], others: tuple[str, ...], type: EntityType | None) -> list[tuple[int, int, float]]:
    """Pair the words that match, each word once: the most similar first, then the nearest."""
    alone = len(ones) == 1 or len(others) == 1
    found = (
        (left, right, alike)
        for left, one in enumerate(ones)
        for right, other in enumerate(others)
        if (alike := _alike(one, other, type, alone))
    )
    taken_left, taken_right, pairs = set[int](), set[int](), list[tuple[int, int, float]]()
    for left, right, alike in sorted(found, key=lambda pair: (-pair[2], abs(pair[0] - pair[1]), pair[0], pair[1])):
        if left not in taken_left and right not in taken_right:
            taken_left.add(left)
            taken_right.add(right)
            pairs.append((left, right, alike))
    return pairs


def _alike(one: str, other: str, type: EntityType | None, alone: bool) -> float:
    """Return how similar two words are: the same, an initial, or a misspelling; otherwise 0."""
    if one == other:
        return 1.0
    short, long = sorted((one, other), key=len)
    if len(short) == 1:
        fits = type in (None, EntityType.PERSON) and short.isascii() and long.startswith(short)
        return INITIAL_FOR_A_NAME if fits else 0.0
    if len(short) < 3 or len(long) - len(short) > 2 or _DIGIT.search(one) or _DIGIT.search(other):
        return 0.0
    if len(short) > 3 and _plain(one) == _plain(other):
        return 0.98
    return _with_slips(one, other, len(long), alone)


def _with_slips(one: str, other: str, length: int, alone: bool) -> float:
    """Compare two words that may be misspelt.

    In a short word only a missing letter or two swapped ones count, and only beside words that are right: one letter
    for another makes June of Jane.
    """
    slips = 1 if length < 8 else 2
    distance = OSA.distance(one, other, score_cutoff=slips)
    if distance > slips:
        return 0.0
    if length < 5 and (alone or (len(one) == len(other) and sorted(one) != sorted(other))):
        return 0.0
    value = 1 - SLIP * distance / length - SECOND_SLIP * (distance - 1)
    return value if one[0] == other[0] else value - FIRST_LETTER


def _plain(word: str) -> str:
    for two, single in _UMLAUTS:
        word = word.replace(two, single)
    return word


def _left_over(reading: NameReading, paired: set[int], type: EntityType | None) -> list[float]:
    """Return the weights of the words without a pair. Middle names of people may be left out."""
    last = len(reading.words) - 1
    of_people = type in (None, EntityType.PERSON) and last in paired
    return [
        min(weight, MIDDLE_NAME) if of_people and 0 < place < last else weight
        for place, weight in enumerate(reading.weights)
        if place not in paired
    ]


def _is_surname(one: NameReading, other: NameReading, type: EntityType | None) -> bool:
    if type is not EntityType.PERSON or one.numbers or other.numbers:
        return False
    without_title = [word for word, weight in zip(one.words, one.weights, strict=True) if weight > TITLE]
    return len(without_title) == 1 and len(other.words) > 1 and without_title[0] == other.words[-1]


def _crossed(pairs: list[tuple[int, int, float]]) -> bool:
    rights = [right for _, right, _ in sorted(pairs)]
    return rights != sorted(rights)
