"""Compare two names of companies, with the reasons for what is said.

The score begins with the words that both have, as a share of all, by weight. Each thing that tells two companies apart
puts a ceiling on it: another number, region, branch, a word that only one has. The lowest ceiling counts.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from rapidfuzz.distance import OSA, Indel

from rowmill_systems.parts.names.company_analysis import (
    GENERIC,
    GROUP,
    MINOR,
    OWN,
    REGION,
    CompanyName,
    CompanyWord,
    analyze_company,
    countries_around,
    countries_of_regions,
    left_out_words,
    words_left_out_in_speech,
)
from rowmill_systems.parts.names.company_normal import legal_forms, series_of_forms
from rowmill_systems.parts.names.transliteration import consonants, is_semitic, skeleton, vowels_merged

SAME_FROM, UNSURE_FROM = 0.85, 0.65
"""Scores from which names are said to be of the same company, or perhaps of the same."""
WEIGHTS = {OWN: 1.0, GENERIC: 0.4, REGION: 0.5, GROUP: 0.3, MINOR: 0.05}
CEILINGS = {
    "numbers differ": 0.4, "number in one": 0.6, "own words in both": 0.5, "own word in one": 0.72,
    "generic words in both": 0.6, "generic word in one": 0.8, "regions differ": 0.5, "region in one": 0.78,
    "bracketed region in one": 0.75, "branch": 0.5, "group": 0.8, "order": 0.8,
}  # fmt: skip
FORMS_TRANSLATE, FORMS_OF_A_SERIES, FORMS_OF_ONE_COUNTRY, FORMS_CONFLICT, FORM_IN_ONE = 0.98, 0.97, 0.84, 0.8, 0.99
FORMS_THAT_NAME = frozenset(("trust",))
"""Forms that say what a company does: Deutsche Bank Trust Company is not Deutsche Bank."""
GLUED_FORMS = frozenset(
    ("ag", "gmbh", "ltd", "inc", "llc", "plc", "corp", "sarl", "srl", "spa", "kg", "bv", "nv", "ooo")
)
"""Forms that are written together with the name by mistake: SiemensAG."""
FORMER_NAME, OTHER_NAME = 0.92, 0.95
GROUP_AS_PEOPLE_SAY = 0.87
"""Where a name has no legal form, the group and the company are one to those who write it."""
TRANSLATED, WRITTEN_TOGETHER = 0.9, 0.97
REGION_IN_FRONT = 0.86
WORD_LEFT_OUT = 0.87
"""A word that companies leave out of their name, as Services: if the rest says who it is."""
LONG_WORD = 8
INITIALS = {2: 0.66, 3: 0.8}
LONG_INITIALS, INITIALS_IN_CAPITALS = 0.87, 0.86
SURE_WORD, SLIP_IN_DOUBT, TWO_SLIPS = 0.9, 0.75, 0.86
"""A word that is surely the same; a name with a slip that may be another name; with two slips in a long name."""
SLIP = 0.88
"""A wrong letter in a word that is long enough, or one that sounds like the right one."""
_CONFUSED = (
    frozenset("aeiouy"),
    frozenset("szcx"),
    frozenset("ckqg"),
    frozenset("vwfu"),
    frozenset("dt"),
    frozenset("ijy"),
    frozenset("mn"),
)
"""Letters that people write for each other."""
CANNOT_COMPARE = UNSURE_FROM
"""The score of two names in scripts that cannot be compared: nobody knows."""


_ENDING = re.compile("(?<=.{4})(?:ogo|oi|aia|oe|ie|ei|i|a|o|e|u)$")


_ADJECTIVE = re.compile("(?<=.{4})sk(?:ii|i|oi|aia|oe|ie|ogo)?$")
"""Муромский завод is the Murom plant."""


class MatchVerdict(StrEnum):
    """What a comparison of two names says."""

    SAME = "same"
    UNSURE = "unsure"
    DIFFERENT = "different"


@dataclass(frozen=True, slots=True)
class MatchReason:
    """One thing that two names have in common, or that distinguishes them."""

    code: str
    """core, legal_form, region, numbers, branch, group, former_name, other_name, initials, order, script, normal."""
    agrees: bool
    detail: str = ""
    """The words themselves, for a person who decides. Never log it."""


@dataclass(frozen=True, slots=True)
class CompanyMatch:
    """How well two names of companies match."""

    score: float
    """From 0 to 1."""
    verdict: MatchVerdict
    reasons: tuple[MatchReason, ...] = ()


@dataclass(slots=True)
class _Judgement:
    score: float
    ceiling: float
    reasons: list[MatchReason]

    def limit(self, ceiling: float, code: str, detail: str = "") -> None:
        self.ceiling = min(self.ceiling, ceiling)
        self.reasons.append(MatchReason(code, False, detail))

    def agree(self, code: str, detail: str = "") -> None:
        self.reasons.append(MatchReason(code, True, detail))

    def factor(self, value: float) -> None:
        self.score *= value

    @property
    def value(self) -> float:
        return max(0.0, min(self.score, self.ceiling))


def compare_companies(one: str, other: str) -> CompanyMatch:
    """Compare two names of companies. Symmetric."""
    return compare_analyzed(analyze_company(one), analyze_company(other))


def compare_analyzed(one: CompanyName, other: CompanyName) -> CompanyMatch:
    """Compare two names that are taken apart already. Symmetric."""
    if not one.normal or not other.normal:
        return CompanyMatch(0.0, MatchVerdict.DIFFERENT, (MatchReason("normal", False),))
    if one.normal == other.normal:
        return CompanyMatch(1.0, MatchVerdict.SAME, (MatchReason("normal", True, one.normal),))
    if other.normal < one.normal:
        one, other = other, one
    best = _judged(one, other)
    for judged in _by_other_names(one, other):
        if judged.value > best.value:
            best = judged
    if best.value < SAME_FROM and not (one.wide or other.wide):
        best = _as_written(one, other, best) or best
    score = round(best.value, 4)
    return CompanyMatch(score, _verdict(score), tuple(best.reasons))


def _verdict(score: float) -> MatchVerdict:
    if score >= SAME_FROM:
        return MatchVerdict.SAME
    return MatchVerdict.UNSURE if score >= UNSURE_FROM else MatchVerdict.DIFFERENT


def _as_written(one: CompanyName, other: CompanyName, judged: _Judgement) -> _Judgement | None:
    """Compare two names letter by letter: without the spaces, and with a slip in a word that many names have.

    A slip in such a word, or in a legal form, hides what the word is. It does not make another company. A slip that
    makes another known word does: another number, another form, another region.
    """
    length = min(len(one.written), len(other.written))
    if length < 6 or one.written[0] != other.written[0]:
        return None
    if one.written == other.written:
        return _Judgement(WRITTEN_TOGETHER, 1.0, [MatchReason("core", True, one.written)])
    if length < 10 or one.numbers != other.numbers or bool(one.branch) != bool(other.branch):
        return None
    distance = OSA.distance(one.written, other.written, score_cutoff=2)
    kinds = [word.kind for word in one.words] == [word.kind for word in other.words]
    if distance == 2 and kinds and one.forms == other.forms and judged.value >= SLIP_IN_DOUBT and _is_long(one, other):
        return _Judgement(TWO_SLIPS, 1.0, [MatchReason("core", True, one.written)])
    if distance > 1:
        return None
    if _single_letters(one) != _single_letters(other):
        return None  # Stroyservis-M
    hidden = len(one.forms) != len(other.forms) or [word.kind for word in one.words] != [
        word.kind for word in other.words
    ]
    return _Judgement(SLIP, 1.0, [MatchReason("core", True, one.written)]) if hidden else None


def _is_long(one: CompanyName, other: CompanyName) -> bool:
    return min(len(one.squashed), len(other.squashed)) >= 12


def _single_letters(name: CompanyName) -> int:
    return sum(len(word.text) == 1 for word in name.words)


def _by_other_names(one: CompanyName, other: CompanyName) -> list[_Judgement]:
    found = list[_Judgement]()
    for code, ceiling in (("former_name", FORMER_NAME), ("other_name", OTHER_NAME)):
        mine, theirs = (one.former, other.former) if code == "former_name" else (one.others, other.others)
        for first, second in [(each, other) for each in mine] + [(one, each) for each in theirs]:
            judged = _judged(first, second)
            if first.normal == second.normal:
                judged = _Judgement(1.0, 1.0, [])
            judged.ceiling = min(judged.ceiling, ceiling)
            judged.agree(code)
            found.append(judged)
    return found


def _judged(one: CompanyName, other: CompanyName) -> _Judgement:
    if one.normal == other.normal:
        return _Judgement(1.0, 1.0, [MatchReason("normal", True, one.normal)])
    if one.wide and other.wide:
        judged = _by_characters(one, other)
    elif one.wide or other.wide:
        return _across_scripts(one, other)
    else:
        judged = _by_words(one, other)
    _judge_forms(one, other, judged)
    return judged


def _judge_forms(one: CompanyName, other: CompanyName, judged: _Judgement) -> None:
    if not one.forms or not other.forms:
        if not (one.forms | other.forms).isdisjoint(FORMS_THAT_NAME):
            judged.limit(CEILINGS["generic word in one"], "legal_form", " ".join(sorted(one.forms | other.forms)))
        elif one.forms != other.forms:
            judged.factor(FORM_IN_ONE)
        return
    detail = f"{' '.join(sorted(one.forms))} / {' '.join(sorted(other.forms))}"
    if one.forms == other.forms:
        judged.agree("legal_form", detail)
        return
    if _in_series(one, other):
        judged.factor(FORMS_OF_A_SERIES)
        judged.agree("legal_form", detail)
    elif not one.kinds & other.kinds:
        judged.factor(FORMS_CONFLICT)
        judged.reasons.append(MatchReason("legal_form", False, detail))
    elif _countries(one) & _countries(other) and not one.forms & other.forms:
        judged.factor(FORMS_OF_ONE_COUNTRY)
        judged.reasons.append(MatchReason("legal_form", False, detail))
    else:
        judged.factor(FORMS_TRANSLATE)
        judged.agree("kind_of_form", detail)


def _in_series(one: CompanyName, other: CompanyName) -> bool:
    series = series_of_forms()
    return any(
        series.get(mine, frozenset()) & series.get(theirs, frozenset()) for mine in one.forms for theirs in other.forms
    )


def _countries(name: CompanyName) -> frozenset[str]:
    return frozenset(country for form in name.forms for country in legal_forms()[form].countries)


# -- names with spaces


def _by_words(one: CompanyName, other: CompanyName) -> _Judgement:
    if initials := _by_initials(one, other):
        return initials
    judged = _Judgement(0.0, 1.0, [])
    _judge_numbers(one, other, judged)
    _judge_branch(one, other, judged)
    if one.group != other.group:
        judged.limit(CEILINGS["group"] if one.forms and other.forms else GROUP_AS_PEOPLE_SAY, "group")
    if one.squashed == other.squashed:
        judged.score = 0.99
        judged.agree("core", one.squashed)
        return judged
    pairs = _paired(one.words, other.words)
    left = [word for place, word in enumerate(one.words) if place not in {left for left, _, _ in pairs}]
    right = [word for place, word in enumerate(other.words) if place not in {right for _, right, _ in pairs}]
    left, right, joined = _joined_words(left, right)
    promoted = (
        not any(one.words[place].kind == OWN or other.words[there].kind == OWN for place, there, _ in pairs)
        and not joined
    )
    shared = sum(alike * _weight(one.words[place], promoted) * 2 for place, _, alike in pairs) + 2.0 * joined
    paired = sum(_weight(one.words[place], promoted) * 2 for place, _, _ in pairs) + 2.0 * joined
    rest = sum(_weight(word, promoted) for word in left + right)
    judged.score = shared / (paired + rest) if paired + rest else 0.0
    short = one if len(one.words) < len(other.words) else other
    informal = not short.forms and len(short.squashed) > 3
    _judge_rest(left, right, pairs, promoted, judged, one.words, other.words, informal)
    _judge_region_in_one(one, other, left, right, judged)
    _judge_slips(one, other, pairs, judged)
    if judged.ceiling == GROUP_AS_PEOPLE_SAY and all(word.kind in (GROUP, MINOR) for word in left + right):
        judged.score = max(judged.score, GROUP_AS_PEOPLE_SAY)
    if shared:
        judged.agree("core", " ".join(one.words[place].text for place, _, _ in pairs))
    of_a_bank = any(word.text == "bank" for word in one.words)
    if promoted and of_a_bank and _crossed(pairs, one) and _minor_words(one) != _minor_words(other):
        judged.limit(CEILINGS["order"], "order")
    elif _crossed(pairs, one):
        judged.factor(0.98)
    return judged


def _judge_slips(one: CompanyName, other: CompanyName, pairs: list[tuple[int, int, float]], judged: _Judgement) -> None:
    """Put a ceiling on the score for the word that fits worst. Other own words that fit exactly speak for a slip."""
    own = [
        (alike, max(len(one.words[place].text), len(other.words[there].text)))
        for place, there, alike in pairs
        if OWN in (one.words[place].kind, other.words[there].kind)
    ]
    worst, length = min(own, default=(1.0, 0))
    exact = sum(alike >= 0.98 for alike, _ in own)
    beside = 0.5 * (sum(alike == 1.0 and one.words[place].kind in (GENERIC, REGION) for place, _, alike in pairs))
    if worst >= 0.7 and (exact >= 2 or (exact + beside >= 1 and length >= 5)):
        judged.ceiling = min(judged.ceiling, max(worst, 0.88))
    elif worst < SURE_WORD:
        judged.ceiling = min(judged.ceiling, worst)


def _judge_rest(
    left: list[CompanyWord],
    right: list[CompanyWord],
    pairs: list[tuple[int, int, float]],
    promoted: bool,
    judged: _Judgement,
    ones: tuple[CompanyWord, ...],
    others: tuple[CompanyWord, ...],
    informal: bool,
) -> None:
    """Put ceilings on the score for words that only one name has."""

    def of(words: list[CompanyWord], *kinds: str) -> list[str]:
        return [word.text for word in words if word.kind in kinds and not (word.kind == OWN and _is_number(word.text))]

    own_left, own_right = of(left, OWN), of(right, OWN)
    generic_left, generic_right = of(left, GENERIC), of(right, GENERIC)
    region_left, region_right = of(left, REGION), of(right, REGION)
    detail = f"{' '.join(own_left + generic_left)} / {' '.join(own_right + generic_right)}"
    if own_left and own_right:
        judged.limit(CEILINGS["own words in both"], "core", detail)
    elif own_left or own_right:
        both = (own_left and generic_right) or (own_right and generic_left)
        judged.limit(CEILINGS["own words in both" if both else "own word in one"], "core", detail)
        if len(pairs) < 2:
            judged.factor(0.92)
    elif generic_left and generic_right:
        judged.limit(CEILINGS["generic words in both"], "core", detail)
    elif (generic_left or generic_right) and any(word.kind == GROUP for word in left + right):
        judged.limit(CEILINGS["generic word in one"], "core", detail)
    elif generic_left or generic_right:
        said = generic_left + generic_right
        soft = not promoted and _says_enough(pairs, ones, others) and all(text in left_out_words() for text in said)
        if not soft and not promoted and informal:
            soft = len(said) == 1 and said[0] in words_left_out_in_speech()
        judged.limit(WORD_LEFT_OUT if soft else CEILINGS["generic word in one"], "core", detail)
        if soft:
            judged.score = max(judged.score, WORD_LEFT_OUT)
    if region_left and region_right:
        judged.limit(CEILINGS["regions differ"], "region", f"{' '.join(region_left)} / {' '.join(region_right)}")


def _says_enough(
    pairs: list[tuple[int, int, float]], ones: tuple[CompanyWord, ...], others: tuple[CompanyWord, ...]
) -> bool:
    """Tell whether the words that both have say which company it is: two of its own, or a long one."""
    own = [ones[place].text for place, there, _ in pairs if OWN in (ones[place].kind, others[there].kind)]
    return len(own) > 1 or any(len(text) >= LONG_WORD for text in own)


def _judge_region_in_one(
    one: CompanyName, other: CompanyName, left: list[CompanyWord], right: list[CompanyWord], judged: _Judgement
) -> None:
    """Put a ceiling on the score for a region that one name leaves out, unless the legal form says it: Lufthansa AG."""
    regions = [[word.text for word in words if word.kind == REGION] for words in (left, right)]
    if bool(regions[0]) == bool(regions[1]):
        return
    texts = regions[0] + regions[1]
    countries = {countries_of_regions().get(text, "") for text in texts}
    stock = [form for form in (legal_forms()[id] for id in one.forms & other.forms) if form.kinds == {"stock"}]
    around = {countries_around().get(region) for region in one.regions & other.regions}
    said = set(texts) <= around or any(
        countries <= form.countries and len(form.countries - {"EN"}) <= 4 for form in stock
    )
    alone = all(word.kind in (REGION, MINOR) for word in left + right)
    if said and alone:
        judged.score = max(judged.score, 0.9)
    elif alone and _region_in_front(one, other):
        judged.score, said = max(judged.score, REGION_IN_FRONT), True
        judged.ceiling = min(judged.ceiling, REGION_IN_FRONT)
    judged.limit(0.9 if said else CEILINGS["region in one"], "region", " ".join(texts))


def _region_in_front(one: CompanyName, other: CompanyName) -> bool:
    """Tell whether the longer name begins with its region, and the rest says who it is: Deutsche Lufthansa."""
    long, short = (one, other) if len(one.words) > len(other.words) else (other, one)
    own = [word.text for word in short.words if word.kind == OWN]
    return (
        len(long.regions) == 1
        and len(long.words) > 1
        and long.words[0].kind == REGION
        and long.words[1].kind == OWN
        and any(len(text) >= 6 for text in own)
    )


def _judge_numbers(one: CompanyName, other: CompanyName, judged: _Judgement) -> None:
    if one.numbers == other.numbers:
        if one.numbers:
            judged.agree("numbers", " ".join(sorted(one.numbers)))
        return
    if one.squashed == other.squashed:
        return
    detail = f"{' '.join(sorted(one.numbers))} / {' '.join(sorted(other.numbers))}"
    both = one.numbers and other.numbers
    judged.limit(CEILINGS["numbers differ" if both else "number in one"], "numbers", detail)


def _judge_branch(one: CompanyName, other: CompanyName, judged: _Judgement) -> None:
    if bool(one.branch) != bool(other.branch):
        judged.limit(CEILINGS["branch"], "branch", one.branch or other.branch)
    elif one.branch:
        judged.agree("branch", one.branch)


def _by_initials(one: CompanyName, other: CompanyName) -> _Judgement | None:
    for short, long in ((one, other), (other, one)):
        if short.letters and short.letters in long.initials and short.numbers == long.numbers:
            value = INITIALS.get(len(short.letters), LONG_INITIALS)
            if len(short.letters) == 3 and short.capitals:
                value = INITIALS_IN_CAPITALS
            judged = _Judgement(value, value, [MatchReason("initials", True, short.letters)])
            _judge_branch(one, other, judged)
            return judged
    return None


def _weight(word: CompanyWord, promoted: bool) -> float:
    if promoted and word.kind in (GENERIC, REGION):
        return 1.0
    return WEIGHTS[word.kind]


def _is_number(text: str) -> bool:
    return text[:1].isdigit()


def _paired(ones: tuple[CompanyWord, ...], others: tuple[CompanyWord, ...]) -> list[tuple[int, int, float]]:
    """Pair the words that match, each once: the most similar first, then the nearest."""
    found = [
        (-alike, abs(left - right), left, right)
        for left, one in enumerate(ones)
        for right, other in enumerate(others)
        if (alike := _alike(one, other))
    ]
    lefts, rights, pairs = set[int](), set[int](), list[tuple[int, int, float]]()
    for alike, _, left, right in sorted(found):
        if left not in lefts and right not in rights:
            lefts.add(left)
            rights.add(right)
            pairs.append((left, right, -alike))
    return pairs


def _alike(one: CompanyWord, other: CompanyWord) -> float:
    if one.text == other.text:
        return 1.0
    if (one.kind == OWN) != (other.kind == OWN) and _misspelt(one, other):
        return SLIP
    if one.kind in (REGION, GROUP, MINOR) or other.kind in (REGION, GROUP, MINOR):
        return 0.0
    if _is_number(one.text) or _is_number(other.text):
        return 0.0
    short, long = sorted((one.text, other.text), key=len)
    if len(short) < 3:
        return 0.0
    foreign = one.foreign != other.foreign
    if not foreign and short[0] != long[0] and one.skeleton[:1] != other.skeleton[:1] and len(long) - len(short) > 1:
        return 0.0
    if foreign and is_semitic(one.text) != is_semitic(other.text):
        heard = consonants(one.text).replace("z", "d")
        return 0.93 if len(heard) > 1 and heard == consonants(other.text).replace("z", "d") else 0.0
    if one.skeleton == other.skeleton and len(one.skeleton) >= 3:
        if one.foreign or other.foreign or _without_umlauts(short) == _without_umlauts(long):
            return 0.98
        return 0.94 if len(short) >= 7 else 0.88
    if len(short) >= 4 and long.startswith(short) and long[len(short) :] in GLUED_FORMS:
        return 0.95
    if len(short) >= 7 and long.startswith(short) and long[len(short) :] in ("as", "ab", "oy", "sa"):
        return 0.95
    if len(short) >= 4 and long in (short + "s", short + "es", short + "n", short + "e"):
        return 0.96 if one.kind == GENERIC or other.kind == GENERIC or len(short) > 5 else 0.9
    if foreign and len(short) >= 5 and _stem(one.skeleton) == _stem(other.skeleton):
        return 0.93
    if foreign and len(short) >= 5:
        distance = OSA.distance(one.skeleton, other.skeleton, score_cutoff=2)
        length = max(len(one.skeleton), len(other.skeleton))
        if distance <= (1 if length < 11 else 2) and one.skeleton[0] == other.skeleton[0]:
            return (0.92 if length >= 7 else 0.8) if distance == 1 else 0.88
    if one.kind == GENERIC and other.kind == GENERIC:
        return 0.0
    return max(_by_sound(one, other, short, long), _with_slips(short, long))


def _misspelt(one: CompanyWord, other: CompanyWord) -> bool:
    """Tell whether one of two words is a word that many names have, and the other the same with a slip."""
    if one.raw[:1] != other.raw[:1] or abs(len(one.raw) - len(other.raw)) > 1 or len(one.raw) < 4 or len(other.raw) < 4:
        return False
    return OSA.distance(one.raw, other.raw, score_cutoff=1) == 1


def _by_sound(one: CompanyWord, other: CompanyWord, short: str, long: str) -> float:
    """Compare words that are spelt by ear: Quds and Qods, Haramain and Haramein."""
    if len(short) < 4 or short[0] != long[0]:
        return 0.0
    if vowels_merged(one.skeleton) == vowels_merged(other.skeleton):
        return SLIP if len(short) > 5 else 0.86
    heard = consonants(short)
    return 0.87 if len(short) > 6 and len(heard) > 3 and heard == consonants(long) else 0.0


def _stem(word: str) -> str:
    """Return a Russian word without its ending: Kaspersky Lab is Лаборатория Касперского."""
    if adjective := _ADJECTIVE.search(word):
        return word[: adjective.start()]
    ending = _ENDING.search(word)
    return word[: ending.start()] if ending else word


def _with_slips(short: str, long: str) -> float:
    """Compare two words of which one may be misspelt. One letter for another makes another name of a short word."""
    length = len(long)
    allowed = 1 if length < 6 else 2
    distance = OSA.distance(short, long, score_cutoff=allowed)
    if distance > allowed or length < 5:
        return 0.0
    if distance == 2 and length < 9:
        return 0.75 if short[0] == long[0] and length - len(short) < 2 else 0.0
    if distance == 2:
        near = short[:3] == long[:3] and length - len(short) < 2
        return 0.87 if length >= 12 and short[0] == long[0] else 0.86 if near else 0.8
    if len(short) < length:
        return 0.92 if length >= 7 and short[0] == long[0] else SLIP if length > 5 else 0.8
    if sorted(short) == sorted(long):
        return SLIP if short[0] == long[0] else 0.8
    place = next(place for place in range(length) if short[place] != long[place])
    confused = any(short[place] in letters and long[place] in letters for letters in _CONFUSED)
    if place == 0:
        return SLIP if confused and length >= 7 else 0.75 if length >= 6 else 0.0
    if confused:
        return SLIP if length >= 6 else 0.8
    return SLIP if length >= 8 else 0.8 if length >= 7 else 0.7


def _without_umlauts(word: str) -> str:
    return word.replace("ae", "a").replace("oe", "o").replace("ue", "u").replace("aa", "a")


def _joined_words(
    left: list[CompanyWord], right: list[CompanyWord]
) -> tuple[list[CompanyWord], list[CompanyWord], int]:
    """Take out words that one name writes together and the other apart, or as their first letters: НПО Алмаз."""
    joined = 0
    for mine, theirs in ((left, right), (right, left)):
        for short in [word for word in theirs if 2 <= len(word.text) <= 5 and word.kind != MINOR]:
            for place in range(len(mine) - len(short.text) + 1):
                run = mine[place : place + len(short.text)]
                if "".join(word.initial for word in run) == short.text:
                    theirs.remove(short)
                    del mine[place : place + len(run)]
                    joined += 1
                    break
    for mine, theirs in ((left, right), (right, left)):
        for place in range(len(mine) - 1):
            both = mine[place].text + mine[place + 1].text
            frame = skeleton(both)
            sound = vowels_merged(frame)
            match = next(
                (
                    word
                    for word in theirs
                    if word.text == both
                    or frame == word.skeleton
                    or (len(both) > 6 and sound == vowels_merged(word.skeleton))
                ),
                None,
            )
            if match:
                theirs.remove(match)
                del mine[place : place + 2]
                joined += 1
                break
    return left, right, joined


def _minor_words(name: CompanyName) -> list[str]:
    return sorted(word.text for word in name.words if word.kind == MINOR)


def _crossed(pairs: list[tuple[int, int, float]], one: CompanyName) -> bool:
    rights = [right for left, right, _ in sorted(pairs) if one.words[left].kind != MINOR]
    return rights != sorted(rights)


# -- names without spaces


def _by_characters(one: CompanyName, other: CompanyName) -> _Judgement:
    judged = _Judgement(0.0, 1.0, [])
    _judge_wide_branch(one, other, judged)
    if one.group != other.group:
        judged.limit(CEILINGS["group"], "group")
    _judge_numbers(one, other, judged)
    _judge_wide_regions(one, other, judged)
    if one.core == other.core:
        judged.score = 0.99
        judged.agree("core", one.core)
    elif one.brand == other.brand and (not one.trade or not other.trade):
        judged.score = 0.8
        judged.limit(CEILINGS["generic word in one"], "core", f"{''.join(one.trade)} / {''.join(other.trade)}")
    elif one.brand == other.brand:
        judged.score = 0.6
        judged.limit(CEILINGS["generic words in both"], "core", f"{''.join(one.trade)} / {''.join(other.trade)}")
    elif _shortened(one.core, other.core) or _shortened(one.full, other.full):
        judged.score = 0.72
        judged.reasons.append(MatchReason("initials", True, f"{one.full} / {other.full}"))
    else:
        judged.score = _similar_characters(one, other)
        judged.reasons.append(MatchReason("core", False, f"{one.core} / {other.core}"))
    return judged


def _similar_characters(one: CompanyName, other: CompanyName) -> float:
    """A single character makes another name, unless the name is long: then it may be a slip."""
    distance = OSA.distance(one.core, other.core, score_cutoff=2)
    length = max(len(one.core), len(other.core))
    if (
        distance == 1
        and length >= 6
        and one.brand[:2] == other.brand[:2]
        and not _numerals_differ(one.core, other.core)
    ):
        return 0.84 if one.brand.isascii() or (_is_kana(one.brand) and length >= 7) else 0.72
    return min(0.6, 0.8 * Indel.normalized_similarity(one.core, other.core))


def _is_kana(text: str) -> bool:
    return bool(text) and all("゠" <= letter <= "ヿ" for letter in text)


def _numerals_differ(one: str, other: str) -> bool:
    numerals = "一二三四五六七八九十0123456789"
    return [sign for sign in one if sign in numerals] != [sign for sign in other if sign in numerals]


def _shortened(one: str, other: str) -> bool:
    """Tell whether one is made of characters of the other, in their order: 中石化 of 中国石油化工."""
    short, long = sorted((one, other), key=len)
    if not 2 <= len(short) <= 6 or len(long) < len(short) + 2 or short[0] != long[0]:
        return False
    letters = iter(long)
    return all(letter in letters for letter in short)


def _judge_wide_branch(one: CompanyName, other: CompanyName, judged: _Judgement) -> None:
    if one.branch == other.branch:
        if one.branch:
            judged.agree("branch", one.branch)
    else:
        judged.limit(CEILINGS["branch"], "branch", f"{one.branch} / {other.branch}")


def _judge_wide_regions(one: CompanyName, other: CompanyName, judged: _Judgement) -> None:
    if one.regions == other.regions:
        if one.regions:
            judged.agree("region", " ".join(sorted(one.regions)))
        return
    detail = f"{' '.join(sorted(one.regions))} / {' '.join(sorted(other.regions))}"
    if one.regions and other.regions:
        if one.regions < other.regions or other.regions < one.regions:
            extra = (one.bracketed_regions ^ other.bracketed_regions) & (one.regions ^ other.regions)
            judged.limit(CEILINGS["bracketed region in one"] if extra else 0.93, "region", detail)
        else:
            judged.limit(CEILINGS["regions differ"], "region", detail)
    elif one.bracketed_regions or other.bracketed_regions:
        judged.limit(CEILINGS["bracketed region in one"], "region", detail)
    else:
        # people leave the region out where they leave the legal form out
        judged.limit(0.83 if one.forms and other.forms else 0.87, "region", detail)


def _across_scripts(one: CompanyName, other: CompanyName) -> _Judgement:
    """Compare Chinese characters, kana or Hangul with Latin letters.

    The name is compared by its sound, what the company does by its meaning.
    """
    wide, spaced = (one, other) if one.wide else (other, one)
    cannot = _Judgement(CANNOT_COMPARE, CANNOT_COMPARE, [MatchReason("script", False)])
    own = [word for word in spaced.words if word.kind == OWN]
    generic = {word.text for word in spaced.words if word.kind == GENERIC}
    if (not own and not generic) or wide.numbers != spaced.numbers:
        return cannot
    judged = _Judgement(CANNOT_COMPARE, 1.0, [])
    if wide.meaning and _translated(wide, spaced):
        judged.score = TRANSLATED
        judged.agree("core", wide.normal)
        return judged
    ways = (
        (wide.spoken, own or list(spaced.words)),
        (wide.spoken, [word for word in spaced.words if word.kind in (OWN, GENERIC)]),
    )
    best = max((_heard(sound, words) for sound, words in ways if sound), default=0.0)
    by_brand = _heard(wide.spoken_brand, own) if wide.spoken_brand and own else 0.0
    if by_brand > best:
        best = by_brand
        trades = wide.translated_trade
        if trades and generic and not trades & generic:
            judged.limit(
                CEILINGS["generic words in both"], "core", f"{' '.join(sorted(trades))} / {' '.join(sorted(generic))}"
            )
        elif bool(trades) != bool(generic):
            judged.limit(WORD_LEFT_OUT if len(wide.spoken_brand) > 5 else CEILINGS["generic word in one"], "core")
    judged.score = 0.9 if best >= 0.92 else 0.75 if best >= 0.75 else CANNOT_COMPARE
    judged.reasons.append(
        MatchReason("core", best >= 0.75, f"{wide.spoken_brand} / {' '.join(word.text for word in own)}")
    )
    if wide.group != spaced.group and wide.forms and spaced.forms:
        judged.limit(CEILINGS["group"], "group")
    if bool(wide.regions) != bool(spaced.regions):
        judged.limit(CEILINGS["region in one"], "region")
    return judged


def _translated(wide: CompanyName, spaced: CompanyName) -> bool:
    """Tell whether each part of a name in Chinese characters is a word of the other, and no word is left over."""
    words = {word.text for word in spaced.words if word.kind not in (MINOR, GROUP)}
    left = set(words)
    for meaning in wide.meaning:
        if not meaning & words:
            return False
        left -= meaning
    return len(wide.meaning) > 1 and left <= {"commercial", "company"}


def _heard(sound: str, words: list[CompanyWord]) -> float:
    """Return how similar a word that is spoken is to words in Latin letters."""
    text = "".join(word.text for word in words)
    if sound == text and sound.isascii() and len(sound) > 1:
        return 1.0
    if len(sound) < 4 or len(text) < 3:
        return 0.0
    mine, theirs = skeleton(sound), skeleton(text)
    plain = 1.0 if vowels_merged(sound) == vowels_merged(text) or vowels_merged(mine) == vowels_merged(theirs) else 0.0
    return max(plain, Indel.normalized_similarity(mine, theirs))
