"""Compare two names of people, with the reasons for what is said.

Words are paired: the same, other spellings of one name, a short form, an initial, a slip. Each pair that is not the
same costs something. Words that only one name has cost little, if enough of the rest says who it is; words that each
name has for itself make two people.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from rapidfuzz.distance import OSA, Indel

from rowmill_systems.parts.names.company_matching import SAME_FROM, UNSURE_FROM, MatchReason, MatchVerdict
from rowmill_systems.parts.names.company_normal import data, simplified
from rowmill_systems.parts.names.folding import folded
from rowmill_systems.parts.names.readings import readings
from rowmill_systems.parts.names.transliteration import (
    consonants,
    is_semitic,
    latin,
    pinyin,
    skeleton,
    spoken,
    vowels_merged,
)
from rowmill_systems.parts.names.types import EntityType

MOST_WORDS = 12
COST = 0.6
"""How much of what is missing to a pair of words is taken off the score."""
SAME_WITHOUT_SPACES, ANOTHER_ORDER = 0.98, 0.98
SPELLING, NICKNAME, INITIAL, BY_SOUND = 0.96, 0.9, 0.93, 0.9
SURNAME_ALONE, GIVEN_NAME_ALONE = 0.83, 0.6
EXTRA = (1.0, 0.94, 0.92, 0.9, 0.88)
"""By the number of words that only one name has."""
LAST_WORD_LEFT_OUT = 0.88
"""The family name of the mother in Spain, that of the tribe in Arabia; or the family name."""
ONLY_COMMON_NAMES, ONLY_GIVEN_NAMES = 0.8, 0.78
INITIAL_AND_SURNAME, INITIAL_AND_COMMON_SURNAME = 0.87, 0.8
EACH_HAS_ITS_OWN, EACH_HAS_A_SIMILAR_ONE, BESIDE_WORDS_THAT_FIT = 0.55, 0.74, 0.86
"""Each name has a word of its own; if these two are similar; and if other words say who it is."""
OTHER_GENERATION, GENERATION_IN_ONE = 0.3, 0.84
OTHER_NUMBER, NUMBER_IN_ONE = 0.3, 0.6
_ARABIC = re.compile("[؀-ۿ]")
_HAN, _HANGUL = re.compile("[㐀-鿿]+"), re.compile("[가-힣]+")
_ABD = re.compile("abd(?:[aeiou]+l?|l)?(?:([rsztdn])(?=\\1))?(.{3,})")
_DIN = re.compile("(.{3,}?)(?:al|ud|ed|ad|id|ul|el|u|e)?d?(?:din|deen|dine|dein)")
_AL = re.compile("(?:al|el|ul)(.{4,})")
_QUOTED = re.compile(r"[\"“”„«»]([^\"“”„«»]+)[\"“”„«»]|(?<=\s)'([^']+)'(?=\s)")
_LAST_INITIAL = re.compile(r"(?<= )([IVX])$")
"""Behind a comma it is no numeral."""
_BRACKETED = re.compile(r"[(\[]([^()\[\]]*)[)\]]")
_DIGIT_IN_WORD = re.compile(r"(?<=[^\W\d_])[0134579](?=[^\W\d_]|\b)|\b[0134579](?!st|nd|rd|th)(?=[^\W\d_]{2})")
_LETTERS_FOR_DIGITS = str.maketrans("0134579", "oleastg")
"""Digits that stand for letters, where somebody hides a name: Sech1n."""
_KOREAN = frozenset(
    ("kim", "park", "lee", "choi", "jung", "kang", "cho", "lim", "shin", "yoo", "jang", "yun", "han", "kwon", "song")
)
_HANGUL_SURNAMES = {
    "이": "lee", "오": "oh", "유": "yoo", "류": "yoo", "우": "woo", "노": "roh", "임": "lim",
    "박": "park", "최": "choi", "정": "jung", "김": "kim", "강": "kang", "조": "cho", "신": "shin", "안": "ahn",
    "문": "moon", "구": "koo",
}  # fmt: skip
_VOICELESS = str.maketrans("bgdj", "pktc")
_CONFUSED = (
    frozenset("sczx"),
    frozenset("gjdy"),
    frozenset("bpv"),
    frozenset("kqgch"),
    frozenset("iyje"),
    frozenset("vwu"),
    frozenset("td"),
    frozenset("aeiou"),
)
"""First letters that spellings exchange."""


@dataclass(frozen=True, slots=True)
class PersonMatch:
    """How well two names of people match."""

    score: float
    """From 0 to 1."""
    verdict: MatchVerdict
    reasons: tuple[MatchReason, ...] = ()


@dataclass(frozen=True, slots=True)
class PersonWord:
    """A word of a person's name, with what comparisons need of it."""

    text: str
    """In Latin letters where there is a way to write it so."""
    name: str
    """The spelling that stands for all of this name, or the text."""
    known: bool
    """In the list of names that have several spellings."""
    skeleton: str
    sound: str
    """The skeleton with vowels that spellings exchange made one."""
    consonants: str
    semitic: bool
    """Written in Arabic or Hebrew letters: only consonants are there."""
    foreign: bool
    kana: bool
    """Written in kana: l is r, and vowels are put in."""
    family: bool
    """In front of a comma."""


@dataclass(frozen=True, slots=True)
class PersonName:
    """A person's name, taken apart for comparisons."""

    words: tuple[PersonWord, ...]
    squashed: str
    numbers: frozenset[str]
    generation: str
    loose: bool
    """A name of the Arabic or Persian world, or in kana: spellings differ by vowels."""
    korean: bool = False
    son_of: str = ""
    """The word behind "bin": the father."""
    wide: str = ""
    """The name as it is written, if it is in Chinese, Korean or Japanese letters."""
    extra: tuple[str, ...] = ()
    """Nicknames in quotation marks."""


def compare_people(one: str, other: str) -> PersonMatch:
    """Compare two names of people. Symmetric."""
    if other < one:
        one, other = other, one
    best, reasons = 0.0, list[MatchReason]()
    for first in analyze_person(one):
        for second in analyze_person(other):
            value, why = _judged(first, second)
            if value > best or not reasons:
                best, reasons = value, why
    score = round(best, 4)
    same, unsure = score >= SAME_FROM, score >= UNSURE_FROM
    verdict = MatchVerdict.SAME if same else MatchVerdict.UNSURE if unsure else MatchVerdict.DIFFERENT
    return PersonMatch(score, verdict, tuple(reasons))


@lru_cache(maxsize=50_000)
def analyze_person(name: str) -> tuple[PersonName, ...]:
    """Return the ways to read a person's name. The last 50,000 are remembered."""
    text = unicodedata.normalize("NFKC", name[:300])
    nicknames = tuple(word for match in _QUOTED.finditer(text) for word in folded(match[1] or match[2]).split())
    plain = _DIGIT_IN_WORD.sub(lambda match: match[0].translate(_LETTERS_FOR_DIGITS), _QUOTED.sub(" ", text))
    bare = _BRACKETED.sub(" ", plain)
    text = next((each for each in (bare, plain, text) if any(map(str.isalnum, each))), text)
    before, comma, behind = text.partition(",")
    if comma:
        text = _LAST_INITIAL.sub(r"\1.", text)
    family = len(_all_words(before)) if comma and behind.strip() else 0
    found = list[PersonName]()
    for way in readings(text, EntityType.PERSON):
        if way.aside or (found and comma):
            continue  # the words are compared in any order
        found.append(_name(way.words, way.numbers, way.generation, family, nicknames))
    return tuple(found)


def _all_words(text: str) -> list[str]:
    return folded(text).split()


def _name(
    words: Sequence[str], numbers: frozenset[str], generation: str, family: int, nicknames: tuple[str, ...]
) -> PersonName:
    parts, loose, kana = list[tuple[str, bool]](), False, False
    for place, word in enumerate(words[:MOST_WORDS]):
        parts += [(part, place < family) for part in _split(word)]
        loose = loose or is_semitic(word)
        kana = kana or bool(spoken(word) and not _HANGUL.match(word))
    squashed = "".join(latin(part) for part, _ in parts)
    kept = _without_honorifics(parts)
    if sum(len(part) > 1 for part, _ in kept) < 2 and len(kept) < len(parts):
        kept = kept if kept and any(len(part) > 1 for part, _ in kept) else parts
    joined, arabic = _joined([(latin(part), of_family, not part.isascii(), part) for part, of_family in kept])
    found = tuple(_word(*each, kana) for each in joined)
    loose = loose or arabic or any(word.name in _arabic_names() for word in found)
    korean = len(found) > 1 and any(word.name in _KOREAN for word in found)
    texts = [latin(part) for part, _ in kept]
    sons = [place for place, text in enumerate(texts[:-1]) if text in ("bin", "ibn", "ben", "بن")]
    father = texts[sons[0] + 1] if sons else ""
    wide = "".join(words) if all(_HAN.fullmatch(word) or _HANGUL.fullmatch(word) for word in words) else ""
    return PersonName(
        found,
        squashed,
        numbers,
        generation,
        loose,
        korean,
        _spellings().get(father, father),
        simplified(wide),
        nicknames,
    )


def _without_honorifics(parts: list[tuple[str, bool]]) -> list[tuple[str, bool]]:
    """Leave out titles in front of the name, of its given name behind a comma, and at its end."""
    kept, known, front = list[tuple[str, bool]](), _honorifics(), True
    for place, part in enumerate(parts):
        front = front or bool(place and parts[place - 1][1] and not part[1])
        if front and part[0] in known:
            continue
        front = False
        kept.append(part)
    while len(kept) > 2 and kept[-1][0] in known and kept[-1][0] not in _spellings():
        kept.pop()
    return kept


def _split(word: str) -> list[str]:
    """Return the words of a name without spaces: family name and given name of Chinese and Korean people."""
    if _HANGUL.fullmatch(word) and 2 <= len(word) <= 4:
        return [_HANGUL_SURNAMES.get(word[0]) or spoken(word[0]), spoken(word[1:])]
    if _HAN.fullmatch(word) and 2 <= len(word) <= 4:
        text = simplified(word)
        size = 2 if text[:2] in _long_surnames() and len(text) > 2 else 1
        syllables = pinyin(text)
        return ["".join(syllables[:size]), "".join(syllables[size:])] if syllables else [word]
    if sound := spoken(word):
        return [sound]
    return [word]


def _joined(words: list[tuple[str, bool, bool, str]]) -> tuple[list[tuple[str, bool, bool, str]], bool]:
    """Make one word of those that people write together or apart, and leave out particles.

    Abd al-Rahman is Abdulrahman, Nur al-Din is Noureddine. Returns the words, and whether one of them is Arabic.
    """
    found, arabic, place, particles = list[tuple[str, bool, bool, str]](), False, 0, _particles()
    many = sum(len(text) > 1 and text not in particles for text, *_ in words) > 1
    while place < len(words):
        text, family, foreign, written = words[place]
        rest = [each[0] for each in words[place + 1 : place + 3]]
        if text in ("abd", "abdul", "abdel", "abdal", "abdol", "abdoul", "abdur", "abdus", "abdu") and rest:
            size = 2 if rest[0] in particles and len(rest) > 1 else 1
            found.append(_abd("".join(rest[size - 1 : size]), family, foreign))
            place, arabic = place + 1 + size, True
            continue
        if text in ("عبد",) and rest:
            found.append((f"عبد{rest[0].removeprefix('ال')}", family, foreign, f"عبد{rest[0].removeprefix('ال')}"))
            place, arabic = place + 2, True
            continue
        if rest and rest[0] in ("الله", "الدین") and is_semitic(text):
            found.append((text + rest[0][2:], family, foreign, text + rest[0][2:]))
            place, arabic = place + 2, True
            continue
        if text in ("abu", "abou", "abo") and rest:
            found.append((f"abu{rest[0]}", family, foreign, f"abu{rest[0]}"))
            place, arabic = place + 2, True
            continue
        if len(rest) > 1 and rest[0] in particles and rest[1] in ("din", "deen", "dine", "dein"):
            found.append((f"{text}din", family, foreign, f"{text}din"))
            place, arabic = place + 3, True
            continue
        if text in ("the", "of") and len(words) > 1:
            pass  # Elizabeth the Second
        elif text in particles and many:
            arabic = arabic or text in ("al", "bin", "ibn", "بن", "ould", "bint")
        elif len(text) > 6 and (match := _ABD.fullmatch(text)) and text not in _spellings():
            found.append(_abd(match[2], family, foreign))
            arabic = True
        elif len(text) > 6 and (match := _DIN.fullmatch(text)):
            found.append((f"{match[1]}din", family, foreign, f"{match[1]}din"))
            arabic = True
        else:
            found.append((text, family, foreign, written))
        place += 1
    return found or words, arabic


def _abd(rest: str, family: bool, foreign: bool) -> tuple[str, bool, bool, str]:
    if rest.startswith(("lah", "allah", "ullah")) and len(rest) < 7:
        return ("abdullah", family, foreign, "abdullah")
    word = "abd" + _spellings().get(rest, rest)
    return (word, family, foreign, word)


@lru_cache(maxsize=50_000)
def _word(text: str, family: bool, foreign: bool, written: str, kana: bool) -> PersonWord:
    name = _spellings().get(written) or _spellings().get(text)
    if name is None and len(text) > 4 and text.endswith("s"):
        name = _spellings().get(text[:-1])  # Latvian: Sergejs
    frame = skeleton(text)
    return PersonWord(
        text=text, name=name or text, known=name is not None, skeleton=frame, sound=vowels_merged(frame),
        consonants=consonants(text), semitic=is_semitic(text), foreign=foreign, kana=kana, family=family,
    )  # fmt: skip


# -- two names


def _judged(one: PersonName, other: PersonName) -> tuple[float, list[MatchReason]]:
    if not one.words or not other.words:
        return 0.0, [MatchReason("core", False)]
    reasons = list[MatchReason]()
    value = _by_words(one, other, reasons)
    if one.generation != other.generation:
        both = one.generation and other.generation
        value = min(value, OTHER_GENERATION if both else GENERATION_IN_ONE)
        reasons.append(MatchReason("generation", False))
    if one.numbers != other.numbers:
        value = min(value, OTHER_NUMBER if one.numbers and other.numbers else NUMBER_IN_ONE)
        reasons.append(MatchReason("numbers", False))
    return value, reasons


def _by_words(one: PersonName, other: PersonName, reasons: list[MatchReason]) -> float:
    if one.wide and other.wide:
        reasons.append(MatchReason("core", one.wide == other.wide, f"{one.wide} / {other.wide}"))
        return 1.0 if one.wide == other.wide else EACH_HAS_ITS_OWN
    if one.squashed == other.squashed:
        reasons.append(MatchReason("core", True, one.squashed))
        return 1.0 if [word.text for word in one.words] == [word.text for word in other.words] else SAME_WITHOUT_SPACES
    loose = one.loose or other.loose
    korean = one.korean and other.korean
    pairs = _pairs(one.words, other.words, loose, korean)
    left = [word for place, word in enumerate(one.words) if place not in {place for place, _, _ in pairs}]
    right = [word for place, word in enumerate(other.words) if place not in {place for _, place, _ in pairs}]
    left, right, joined = _written_together(left, right)
    initials = [pair for pair in pairs if 1 in (len(one.words[pair[0]].text), len(other.words[pair[1]].text))]
    full = [pair for pair in pairs if pair not in initials]
    score = 1 - COST * sum(1 - alike for _, _, alike in pairs) - COST * (1 - SPELLING) * joined
    detail = f"{' '.join(word.text for word in left)} / {' '.join(word.text for word in right)}"
    if not full and not joined:
        reasons.append(MatchReason("core", False, detail))
        return min(score, 0.4)
    reasons.append(MatchReason("core", True, " ".join(one.words[place].text for place, _, _ in pairs)))
    left = [word for word in left if word.text not in other.extra]
    right = [word for word in right if word.text not in one.extra]
    if left and right:
        reasons.append(MatchReason("core", False, detail))
        if len(left) != 1 or len(right) != 1 or not _nearly(left[0], right[0]):
            return min(score, EACH_HAS_ITS_OWN)
        distinct = joined + sum(_worth(one.words[place]) for place, _, _ in full)
        return min(score, BESIDE_WORDS_THAT_FIT if distinct >= 2 else EACH_HAS_A_SIMILAR_ONE)
    if left or right:
        score = min(
            score * EXTRA[min(len(left or right), len(EXTRA) - 1)], _ceiling(one, other, full, joined, initials)
        )
        reasons.append(MatchReason("left_out", False, detail))
    elif len(full) + joined == 1 and initials:
        only = one.words[full[0][0]].name if full else ""
        if any(alike < 1 for _, _, alike in initials):
            score = min(score, INITIAL_AND_COMMON_SURNAME if only in _common() else INITIAL_AND_SURNAME)
        reasons.append(MatchReason("initials", True))
    elif len(full) == 1 and not joined and full[0][2] < 0.98:
        longest = max(len(one.words[full[0][0]].text), len(other.words[full[0][1]].text))
        score = min(score, 0.9 if longest >= 8 or full[0][2] >= SPELLING else 0.8)
    rights = [right for _, right, _ in sorted(pairs)]
    if one.son_of and other.son_of and one.son_of != other.son_of and rights != sorted(rights):
        reasons.append(MatchReason("order", False))
        return min(score, EACH_HAS_ITS_OWN)  # Omar, the son of Abdullah, is not Abdullah, the son of Omar
    return score * ANOTHER_ORDER if rights != sorted(rights) else score


def _ceiling(
    one: PersonName, other: PersonName, full: list[tuple[int, int, float]], joined: int,
    initials: list[tuple[int, int, float]],
) -> float:  # fmt: skip
    """Return how much can be said of two names of which one has words that the other leaves out."""
    short, long, places = one, other, [(left, right) for left, right, _ in full]
    if len(one.words) > len(other.words):
        short, long, places = other, one, [(right, left) for left, right, _ in full]
    matched = [short.words[place] for place, _ in places]
    if len(full) + joined == 1:
        if any(len(word.text) == 1 for word in long.words):
            return 0.78
        if joined or not places:
            return GIVEN_NAME_ALONE
        place = places[0][1]
        is_family = long.words[place].family if long.words[0].family else place == len(long.words) - 1
        if initials:
            return 0.78 if is_family and matched[0].name not in _common() else 0.7
        alone = len(short.words) == 1
        return SURNAME_ALONE if alone and is_family else GIVEN_NAME_ALONE
    distinct = joined + sum(map(_worth, matched))
    extra = len(long.words) - len(full) - joined - len(initials)
    if distinct < 1.5 or (extra > 2 and distinct < 3):
        return ONLY_COMMON_NAMES
    if (
        distinct < 2.5
        and any(word.family for word in long.words)
        and not any(long.words[place].family for _, place in places)
    ):
        return ONLY_GIVEN_NAMES
    last = len(long.words) - 1
    if not joined and not long.words[0].family and last not in {place for _, place in places}:
        if len(short.words) == 2 and all(word.name in _given_names() for word in matched) and not long.loose:
            return ONLY_GIVEN_NAMES
        return LAST_WORD_LEFT_OUT
    return 1.0


def _worth(word: PersonWord) -> float:
    """Return how much a word says of who it is."""
    return 0.5 if word.name in _common() else 1.0


def _pairs(
    ones: Sequence[PersonWord], others: Sequence[PersonWord], loose: bool, korean: bool
) -> list[tuple[int, int, float]]:
    """Pair the words that match, each once: the most similar first, then the nearest."""
    found = [
        (-alike, abs(left - right), left, right)
        for left, one in enumerate(ones)
        for right, other in enumerate(others)
        if (alike := _alike(one, other, loose, korean))
    ]
    lefts, rights, pairs = set[int](), set[int](), list[tuple[int, int, float]]()
    for alike, _, left, right in sorted(found):
        if left not in lefts and right not in rights:
            lefts.add(left)
            rights.add(right)
            pairs.append((left, right, -alike))
    return pairs


def _alike(one: PersonWord, other: PersonWord, loose: bool, korean: bool) -> float:
    """Return how similar two words are; 0 if they are two names."""
    if one.text == other.text:
        return 1.0
    if one.name == other.name:
        return SPELLING
    if len(one.text) == 1 or len(other.text) == 1:
        first, second = one.text[:1], other.text[:1]
        return INITIAL if first == second or one.name[:1] == other.name[:1] else 0.0
    if one.semitic != other.semitic:
        return _across_scripts(one.consonants.replace("z", "d"), other.consonants.replace("z", "d"))
    if _short_for(one, other):
        return NICKNAME
    if one.known and other.known:
        return 0.0  # Hassan is not Hussein
    if min(len(one.text), len(other.text)) < 3:
        return SPELLING if one.skeleton == other.skeleton and len(one.skeleton) > 1 else 0.0
    if _another_gender(one.text, other.text):
        return 0.0
    if one.text == f"abd{other.name}" or other.text == f"abd{one.name}":
        return 0.84
    if len(one.text) > 4 and len(other.text) > 4 and one.text.rstrip("s") == other.text.rstrip("s"):
        return 0.92
    if one.skeleton == other.skeleton and len(one.skeleton) > 2:
        if one.foreign or other.foreign or _without_umlauts(one.text) == _without_umlauts(other.text):
            return 0.98
        return 0.95 if loose else 0.9
    if one.sound == other.sound and len(one.sound) > 3:
        return 0.94 if loose or one.foreign or other.foreign else 0.82
    if one.kana != other.kana:
        same = one.consonants.replace("l", "r") == other.consonants.replace("l", "r") and len(one.consonants) > 1
        return 0.93 if same else 0.0
    if korean and _voiceless(one) == _voiceless(other):
        return 0.92
    if loose and (value := _by_consonants(one, other)):
        return value
    return _with_slips(one, other)


def _by_consonants(one: PersonWord, other: PersonWord) -> float:
    """Compare words of which spellings agree on the consonants at most."""
    if one.text[:2] in ("al", "el", "ul") and (match := _AL.fullmatch(one.text)):
        return BY_SOUND if consonants(match[1]) == other.consonants and len(other.consonants) > 2 else 0.0
    if other.text[:2] in ("al", "el", "ul") and (match := _AL.fullmatch(other.text)):
        return BY_SOUND if consonants(match[1]) == one.consonants and len(one.consonants) > 2 else 0.0
    if one.consonants != other.consonants or (one.text[0] in "aeiou") != (other.text[0] in "aeiou"):
        return 0.0
    return BY_SOUND if len(one.consonants) > 2 else 0.86 if OSA.distance(one.sound, other.sound) < 2 else 0.0


def _across_scripts(one: str, other: str) -> float:
    if one == other:
        return 0.97 if len(one) > 1 else 0.9
    return 0.88 if min(len(one), len(other)) > 2 and OSA.distance(one, other, score_cutoff=1) <= 1 else 0.0


def _voiceless(word: PersonWord) -> str:
    """Return how a Korean word sounds: Pom is Bom, Jin is Chin."""
    return vowels_merged(word.text.replace("ch", "c").replace("j", "c")).translate(_VOICELESS)


def _confused(one: str, other: str) -> bool:
    return any(one in letters and other in letters for letters in _CONFUSED)


def _with_slips(one: PersonWord, other: PersonWord) -> float:
    """Compare two words of which one may be misspelt. Vowels are mixed up more often than consonants."""
    short, long = sorted((one.text, other.text), key=len)
    length = len(long)
    allowed = 1 if length < 6 else 2
    distance = OSA.distance(short, long, score_cutoff=allowed)
    if distance > 1 and length > 5 and OSA.distance(one.skeleton, other.skeleton, score_cutoff=1) <= 1:
        return 0.8 if one.skeleton[0] == other.skeleton[0] and len(one.skeleton) > 4 else 0.0
    if one.foreign != other.foreign and length >= 5 and distance > 1:
        apart = OSA.distance(one.sound, other.sound, score_cutoff=2)
        if apart <= (1 if length < 9 else 2):
            return 0.88 if apart == 1 else 0.82
    if distance > allowed or length < 4:
        return 0.0
    if short[0] != long[0] and not (length > 4 and (short[0] == long[1] or _confused(short[0], long[0]))):
        return 0.76 if length >= 5 and distance == 1 else 0.0
    if distance == 2:
        return 0.8 if length >= 10 else 0.76
    if len(short) == length:
        swapped = sorted(short) == sorted(long)
        vowel = _vowels_apart(short, long)
        if swapped:
            return 0.86 if length > 4 else 0.76
        if length < 6:
            return 0.5 if length < 5 else 0.76
        return (0.84 if vowel else 0.76) if length < 8 else 0.86 if vowel else 0.82
    return 0.88 if length >= 7 else 0.82 if length >= 5 else 0.76


def _without_umlauts(word: str) -> str:
    return word.replace("ae", "a").replace("oe", "o").replace("ue", "u")


def _vowels_apart(one: str, other: str) -> bool:
    return all(
        first == second or (first in "aeiouy" and second in "aeiouy") for first, second in zip(one, other, strict=True)
    )


def _another_gender(one: str, other: str) -> bool:
    """Tell whether two words are the forms of one name for a man and for a woman: Mario, Maria; Daniel, Daniela."""
    if one[:-1] == other[:-1]:
        return (one[-1] == "a" and other[-1] in "oeiu") or (other[-1] == "a" and one[-1] in "oeiu")
    short, long = sorted((one, other), key=len)
    return long in (short + "a", short + "ia", short + "na", short[:-1] + "aya", short[:-1] + "ina")


def _nearly(one: PersonWord, other: PersonWord) -> bool:
    if one.known and other.known:
        return False
    if min(len(one.text), len(other.text)) < 5 or one.text[:3] == other.text[:3] == "abd":
        return False
    return (one.text[0] == other.text[0] or _confused(one.text[0], other.text[0])) and Indel.normalized_similarity(
        one.sound, other.sound
    ) > 0.7


def _written_together(
    left: list[PersonWord], right: list[PersonWord]
) -> tuple[list[PersonWord], list[PersonWord], int]:
    """Take out words that one name writes together and the other apart: Jong-un, Jongun."""
    joined = 0
    for mine, theirs in ((left, right), (right, left)):
        for place in range(len(mine) - 1):
            text = mine[place].text + mine[place + 1].text
            both, plain = skeleton(text), vowels_merged(text)
            match = next((word for word in theirs if both == word.skeleton or plain == vowels_merged(word.text)), None)
            if match and len(both) > 3:
                theirs.remove(match)
                del mine[place : place + 2]
                joined += 1
                break
    return left, right, joined


def _short_for(one: PersonWord, other: PersonWord) -> bool:
    known = _nicknames()
    mine, theirs = known.get(one.text), known.get(other.text)
    if mine is None and theirs is None:
        return False
    return (
        other.text in (mine or ())
        or other.name in (mine or ())
        or one.text in (theirs or ())
        or one.name in (theirs or ())
    )


# -- word lists, folded


@cache
def _honorifics() -> frozenset[str]:
    return frozenset(map(folded, data("people_words.toml")["people"]["honorifics"]))


@cache
def _particles() -> frozenset[str]:
    words = data("people_words.toml")["people"]["particles"]
    return frozenset(map(folded, words)) | frozenset(latin(folded(word)) for word in words)


@cache
def _common() -> frozenset[str]:
    spellings = _spellings()
    words = [folded(word) for word in data("people_words.toml")["people"]["common"]]
    return frozenset(words) | frozenset(spellings.get(word, word) for word in words)


@cache
def _spellings() -> Mapping[str, str]:
    """Return the name that each spelling stands for."""
    return {
        folded(word): name for name, words in data("people_words.toml")["spellings"].items() for word in (name, *words)
    }


@cache
def _nicknames() -> Mapping[str, frozenset[str]]:
    """Return the full names of each short one."""
    found = dict[str, set[str]]()
    spellings = _spellings()
    for name, words in data("people_words.toml")["nicknames"].items():
        for word in words:
            found.setdefault(word, set()).update((name, spellings.get(name, name)))
    return {word: frozenset(names) for word, names in found.items()}


@cache
def _given_names() -> frozenset[str]:
    return frozenset(_spellings().values()) | frozenset(data("people_words.toml")["nicknames"])


@cache
def _arabic_names() -> frozenset[str]:
    """Return the names that have a spelling in Arabic letters."""
    names = data("people_words.toml")["spellings"]
    return frozenset(name for name, words in names.items() if any(map(_ARABIC.search, words)))


@cache
def _long_surnames() -> frozenset[str]:
    return frozenset(data("people_words.toml")["surnames"]["han"])
