"""What the parts of a company's name say: which words are its own, which many have, and where it is."""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache

from rapidfuzz.distance import OSA

from rowmill_systems.parts.names.company_normal import (
    PhraseTree,
    company_parts,
    company_words,
    data,
    folded_words,
    legal_forms,
    normal_form,
    simplified,
)
from rowmill_systems.parts.names.transliteration import folded_japanese, latin, pinyin, skeleton, spoken

OWN, GENERIC, REGION, GROUP, MINOR = "own", "generic", "region", "group", "minor"
MOST_WORDS = 24
_WIDE = re.compile(r"[぀-ヿ㐀-鿿가-힯]")
_BRACKETED = re.compile(r"[(\[【〔]([^()\[\]【】〔〕]*)[)\]】〕]")
_UNIT = "(?:特别行政区|自治区|自治州|新区|省|市|区|县)?"
_STRONG_FORMS = frozenset(
    ("gmbh", "ltd", "limited", "inc", "incorporated", "llc", "plc", "sarl", "srl", "bv", "ooo", "ооо", "oao", "оао",
    "zao", "зао", "pao", "пао",
     "pjsc", "ojsc", "kg", "aktiengesellschaft", "llp", "bhd", "tbk", "pty", "pvt", "pte", "spa", "jsc", "ag", "ksc",
     "cjsc", "sae", "fze", "doo", "tov", "тов", "тоо", "too", "uab", "eood")
)  # fmt: skip
"""Forms that are forms in the middle of a name, too: Siemens AG Österreich."""
_NUMBER = re.compile(r"\d")
_ALSO = re.compile(
    r"\s(?:a\.?k\.?a\.?|d[./]?b[./]?a\.?|t/a|doing business as|trading as|also known as|alias)\s", re.IGNORECASE
)
_WORDS_OF_FORMS = {
    "j": ("joint",), "s": ("stock",), "l": ("limited", "liability"), "c": ("company", "corporation"),
    "i": ("incorporated",), "a": ("aktiengesellschaft",), "g": ("gesellschaft",), "p": ("partnership", "proprietary"),
}  # fmt: skip
_SPACE_AS_SIGN = re.compile(r"(?<=[^\W\d_])[+_](?=[^\W\d_])")
"""In a name without spaces they are spaces: Red_Eagles."""
_TENS = {"twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90}
_ADJECTIVE = re.compile("(?:yy|iy|aya|yaya|oe|oye|ie|ye|ii|y|i|o)$")


@dataclass(frozen=True, slots=True)
class CompanyWord:
    """A word of a name, in Latin letters where there is a way to write it so."""

    text: str
    kind: str
    """own, generic, region, group or minor."""
    skeleton: str = ""
    initial: str = ""
    """The first letter of the word as it was written."""
    foreign: bool = False
    """Transliterated: its spelling is one of several."""
    raw: str = ""
    """As it was written, in Latin letters."""


@dataclass(frozen=True, slots=True)
class CompanyName:
    """A company's name, taken apart for comparisons."""

    normal: str
    words: tuple[CompanyWord, ...] = ()
    full: str = ""
    """For scripts without spaces: the name without legal form and group."""
    core: str = ""
    """For scripts without spaces: the name without legal form, group, region and branch."""
    brand: str = ""
    """The same without what the company does."""
    trade: tuple[str, ...] = ()
    """What the company does."""
    forms: frozenset[str] = frozenset()
    regions: frozenset[str] = frozenset()
    bracketed_regions: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()
    branch: str = ""
    group: bool = False
    initials: tuple[str, ...] = ()
    written: str = ""
    """The whole name without spaces, with its legal form."""
    letters: str = ""
    """The name, if it is a single short word that may stand for others."""
    wide: bool = False
    """Written without spaces."""
    spoken: str = ""
    """The core in Latin letters, if it is kana, Hangul, or Chinese characters whose reading is known."""
    spoken_brand: str = ""
    """The same without what the company does."""
    translated_trade: frozenset[str] = frozenset()
    """What the company does, in the words that names in Latin letters have for it."""
    meaning: tuple[frozenset[str], ...] = ()
    """The whole name in words that names in Latin letters have for its parts, if each part has some."""
    capitals: bool = False
    """The letters are written in capitals."""
    others: tuple["CompanyName", ...] = field(default=(), compare=False)
    """Names that the name itself mentions: in brackets, or behind "trading as"."""
    former: tuple["CompanyName", ...] = field(default=(), compare=False)

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(kind for form in self.forms for kind in legal_forms()[form].kinds)

    @property
    def squashed(self) -> str:
        return self.core if self.wide else "".join(word.text for word in self.words if word.kind != MINOR)


@lru_cache(maxsize=50_000)
def analyze_company(name: str) -> CompanyName:
    """Take a company's name apart. The last 50,000 are remembered."""
    return _analyzed(name, depth=0)


def _analyzed(name: str, depth: int) -> CompanyName:
    name = unicodedata.normalize("NFKC", name.strip()[:400])
    normal = normal_form(name)
    if not normal:
        return CompanyName("")
    if " " not in name:
        name = _SPACE_AS_SIGN.sub(" ", name)
    base, others = name, list[str]()
    if depth == 0:
        base, others = _mentioned(name)
    if base.endswith(("'s", "’s")) and company_parts(base[:-2]).forms:
        base = base[:-2]
    parts = company_parts(base)
    if not parts.words:
        base, others, parts = name, [], company_parts(name)
    if not parts.words:
        return CompanyName(normal)
    found = _wide(base, parts.words) if any(map(_WIDE.search, parts.words)) else _spaced(parts.words)
    if depth == 0 and not found.wide and len(parts.words) > 2:
        others += _own_initials(parts.words)
    former = tuple(each for text in parts.former if depth == 0 and (each := _analyzed(text, 1)).normal)
    forms = found.forms | frozenset(parts.forms)
    mentioned = tuple(each for text in others if (each := _analyzed(text, 1)).normal)
    return CompanyName(
        normal=normal, written=latin("".join(folded_words(name))), words=found.words, full=found.full, core=found.core,
        brand=found.brand, trade=found.trade,
        forms=forms,
        regions=found.regions, bracketed_regions=found.bracketed_regions, numbers=found.numbers, branch=found.branch,
        group=found.group, initials=_initials(found.words, parts.forms), letters=found.letters, wide=found.wide,
        spoken=found.spoken, spoken_brand=found.spoken_brand, translated_trade=found.translated_trade,
        meaning=found.meaning,
        capitals=_in_capitals(base, found.letters), others=mentioned, former=former,
    )  # fmt: skip


def _own_initials(words: Sequence[str]) -> list[str]:
    """Return both names of a company that has its initials in front of its name: H&M Hennes & Mauritz."""
    for size in (1, 2, 3):
        head = "".join(word for word in words[:size] if word != "and")
        rest = [word for word in words[size:] if word not in _minor()]
        letters = "".join(word[0] for word in rest)
        if len(rest) > 1 and len(head) > 1 and (head == letters or (len(head) > 3 and sorted(head) == sorted(letters))):
            return [" ".join(words[:size]), " ".join(words[size:])]
    return []


def _in_capitals(name: str, letters: str) -> bool:
    return bool(letters) and any(
        word.isupper() and word.replace(".", "").replace("&", "a").lower() == letters for word in name.split()
    )


def _mentioned(name: str) -> tuple[str, list[str]]:
    """Return the name without the other names that it mentions, and those."""
    others = list[str]()
    if match := _ALSO.search(name):
        others.append(name[match.end() :].strip(" \"'"))
        name = name[: match.start()]
    first, slash, second = name.partition("/")
    if slash and len(company_parts(first).words) > 1 and len(company_parts(second).words) > 1:
        others += [first, second]  # Al-Qa'ida/Islamic Army
    for match in reversed(list(_BRACKETED.finditer(name))):
        inner, rest = match[1].strip(), (name[: match.start()] + " " + name[match.end() :]).strip()
        if not inner or not any(map(str.isalnum, rest)):
            continue
        behind = company_parts("x " + name[match.end() :]).words if name[match.end() :].strip(" .,") else ("x",)
        if _is_aside(inner, rest, last=behind == ("x",)):
            name = rest
            others.append(re.sub("^now ", "", inner, flags=re.IGNORECASE))
    return name, others


def _is_aside(inner: str, rest: str, *, last: bool) -> bool:
    """Tell whether brackets hold another name: initials, or the same in another script."""
    if inner.lower().startswith("now "):
        return True
    if bool(_WIDE.search(inner)) != bool(_WIDE.search(rest)):
        return len(inner) > 3
    if _WIDE.search(inner):
        return False
    words = company_parts(inner).words
    if len(words) == 1 and 2 <= len(words[0]) <= 8 and inner.replace(".", "").isupper():
        base = company_parts(rest)
        if last and len(words[0]) > 2 and words[0].isalpha() and not _region_tree().longest(words, 0)[0]:
            return True
        return latin(words[0]) in _initials(_spaced(base.words).words, base.forms)
    return inner.isascii() != rest.isascii() and len(words) > 1


# -- names with spaces


def _spaced(tokens: Sequence[str]) -> CompanyName:
    words, forms, branch = _without_inner_forms(list(tokens[:MOST_WORDS]))
    size, form = _more_forms().longest(words, len(words)) if words and words[-1] in _more_forms().root else (0, "")
    if 0 < size < len(words):
        words = words[:-size]
        forms.add(form)
    front, (size, form) = _transliterated_front(), (0, "")
    if words and skeleton(latin(words[0])) in front.root:
        size, form = front.longest([skeleton(latin(word)) for word in words[:8]], 0)
    if 0 < size < len(words):
        words = words[size:]
        forms.add(form)
    elif len(words) > 2 and words[0] == "ms":
        words = words[1:]  # M/s Sharma Traders
    elif len(words) > 1 and words[0] in _STRONG_FORMS and (form := "".join(company_parts(f"a {words[0]}").forms[:1])):
        words = words[1:]
        forms.add(form)
    if "tic" in words:
        words = ["sanayi" if word == "san" else word for word in words]  # San. ve Tic. of Turkey
    words = [long for word in words for long in _expansions().get(latin(word), (word,))]
    words = _with_compound_numbers(words)
    foreign = [not word.isascii() for word in words]
    texts = [latin(word) for word in words]
    found, numbers, regions, group, place = list[CompanyWord](), set[str](), set[str](), False, 0
    while place < len(texts):
        size, region = _region_tree().longest(texts, place)
        if size and not (region in ("north", "south", "east", "west") and size < len(texts) == 2):
            regions.add(region)
            letters = "".join(text[0] for text in texts[place : place + size])
            found += [CompanyWord(region, REGION, initial=letters, raw="".join(texts[place : place + size]))]
            place += size
            continue
        text, initial = _usual(texts[place]), texts[place][:1]
        if text in ("russia", "moscow"):
            regions.add(text)
            found.append(CompanyWord(text, REGION, initial=initial, raw=texts[place]))
            place += 1
            continue
        if number := _number(text, place, len(texts)):
            numbers.add(number)
            found.append(CompanyWord(number, OWN, initial=initial))
        elif text in _group_words():
            group = True
            found.append(CompanyWord("group", GROUP, initial=initial, raw=texts[place]))
        elif text in _minor() or (place and _is_misspelt_form(text)):
            found.append(CompanyWord(text, MINOR, initial=initial))
        else:
            kind = GENERIC if text in _generic() or _singular(text) in _generic() else OWN
            found.append(CompanyWord(text, kind, skeleton(text), initial, foreign[place], texts[place]))
        place += 1
    if all(word.kind == MINOR for word in found):
        found = [CompanyWord(word.text, OWN, skeleton(word.text), word.initial, word.foreign) for word in found]
    letters = texts[0] if len(texts) == 1 and 2 <= len(texts[0]) <= 7 and texts[0].isalpha() else ""
    if len(texts) == 3 and texts[1] == "and" and len(texts[0]) == len(texts[2]) == 1:
        letters = f"{texts[0]}a{texts[2]}"  # P&G
    return CompanyName(
        "", tuple(found), forms=frozenset(forms), regions=frozenset(regions), numbers=frozenset(numbers), branch=branch,
        group=group, letters=letters,
    )  # fmt: skip


def _is_misspelt_form(text: str) -> bool:
    """Tell whether a word is one of a legal form with a slip: Joynt Stock Company."""
    known = _WORDS_OF_FORMS.get(text[:1])
    if not known or len(text) < 5 or text in _generic():
        return False
    return any(abs(len(text) - len(word)) < 2 and OSA.distance(text, word, score_cutoff=1) == 1 for word in known)


def _without_inner_forms(words: list[str]) -> tuple[list[str], set[str], str]:
    """Take legal forms and words for branches out of the middle of a name."""
    forms, branch = set[str](), ""
    for place in range(len(words)):
        size, _ = _branch_tree().longest(words, place)
        if size and len(words) > size:
            branch = " ".join(words[place : place + size])
            del words[place : place + size]
            break
    for place in range(len(words) - 1, 0, -1):
        if words[place] in _STRONG_FORMS:
            before = company_parts(" ".join(words[: place + 1]))
            if before.forms and before.words:
                forms.update(before.forms)
                words = list(before.words) + words[place + 1 :]
            break
    return words, forms, branch


def _number(text: str, place: int, count: int) -> str:
    if _NUMBER.search(text):
        digits = re.sub(r"(?<=\d)(?:st|nd|rd|th)$", "", text)
        return digits.lstrip("0") or "0"
    if len(text) == 1 and (place == 0 or place < count - 1 or text not in "ivx"):
        return ""
    return _spelled_numbers().get(text, "") if count > 1 else ""


def _with_compound_numbers(words: list[str]) -> list[str]:
    """Write forty four and forty 4 as 44."""
    if _TENS.keys().isdisjoint(words):
        return words
    found, place = list[str](), 0
    while place < len(words):
        tens, unit = _TENS.get(words[place], 0), 0
        if tens and place + 1 < len(words):
            written = words[place + 1]
            unit = (
                int(written)
                if written in "123456789"
                else int(_spelled_numbers().get(written, "0") if len(written) > 2 else "0")
            )
        if tens:
            found.append(str(tens + (unit if unit < 10 else 0)))
            place += 2 if 0 < unit < 10 else 1
        else:
            found.append(words[place])
            place += 1
    return found


def _initials(words: Sequence[CompanyWord], forms: Iterable[str]) -> tuple[str, ...]:
    """Return the letters that may stand for a name of several words."""
    texts = [word for word in words if word.text]
    if len(texts) < 2:
        return ()
    every = "".join(word.initial for word in texts)
    without_minor = "".join(word.initial for word in texts if word.kind != MINOR)
    own = "".join(word.initial for word in texts if word.kind not in (MINOR, GROUP))
    found = [every, without_minor, own]
    found += [
        letters + form[0]
        for letters in (every, without_minor)
        for form in forms
        if form in ("co", "corp", "inc", "ltd", "llc")
    ]
    return tuple(letters for letters in dict.fromkeys(found) if len(letters) > 1)


def _usual(text: str) -> str:
    """Return the usual word for an abbreviation or a translation."""
    known = _abbreviations()
    usual = known.get(text) or known.get(_singular(text))
    if not usual and (ending := _ADJECTIVE.search(text)):
        usual = _stems().get(text[: ending.start()])
    return usual or text


def _singular(text: str) -> str:
    if len(text) > 4 and text.endswith("s") and not text.endswith(("ss", "us", "is")):
        return text[:-3] + "y" if text.endswith("ies") else text[:-1]
    return text


# -- names without spaces


def _wide(name: str, tokens: Sequence[str]) -> CompanyName:
    text = "".join(tokens)
    forms = {form for written, form in _glued_inside() if written in text}
    for written, _ in _glued_inside():
        text = text.replace(written, "")
    branch = ""
    if match := _branch_pattern().search(text):
        branch = text
        text = text[: match.start()] or text
    if match := _head_office_pattern().search(text):
        text = text[: match.start()] or text
    bracketed = {region for inner in _BRACKETED.findall(name) if (region := _han_region("".join(folded_words(inner))))}
    for region in bracketed:
        text = re.sub(re.escape(region) + _UNIT, "", text, count=1) or text
    group = False
    for written in _wide_groups():
        if written in text and text != written:
            text, group = text.replace(written, ""), True
    full = folded_japanese(text)
    text, regions = _without_regions(text)
    regions |= bracketed
    core = folded_japanese(text)
    brand, trade = _without_trade(core)
    latin_core = _sound(text) if not _NUMBER.search(text) else ""
    latin_brand = _sound(text[: len(brand)]) if trade and not _NUMBER.search(text) else ""
    trades = frozenset(word for part in trade for word in _translations().get(part, ()))
    numbers = frozenset(re.findall(r"\d+", unicodedata.normalize("NFKC", core)))
    return CompanyName(
        "", full=full, core=core, brand=brand, trade=trade, forms=frozenset(forms), regions=frozenset(regions),
        bracketed_regions=frozenset(bracketed), numbers=numbers, branch=branch, group=group, wide=True,
        spoken=latin_core, spoken_brand=latin_brand or latin_core, translated_trade=trades,
        meaning=_meaning("".join(tokens)),
    )  # fmt: skip


def _meaning(text: str) -> tuple[frozenset[str], ...]:
    """Translate a name part by part, the longest known part first; empty if one of them is not known."""
    for written, _ in _glued_inside():
        text = text.replace(written, "")
    for written in _wide_groups():
        text = text.replace(written, "")
    text, found, place = folded_japanese(text), list[frozenset[str]](), 0
    while place < len(text):
        size = next((size for size in (5, 4, 3, 2, 1) if text[place : place + size] in _meanings()), 0)
        if not size:
            return ()
        found.append(_meanings()[text[place : place + size]])
        place += size
    return tuple(found)


def _sound(text: str) -> str:
    return text if text.isascii() else spoken(text) or "".join(pinyin(text))


def _without_regions(text: str) -> tuple[str, set[str]]:
    regions = set[str]()
    while (match := _region_start().match(text)) and len(text) - match.end() >= 2:
        rest = text[match.end() :]
        if rest in _wide_generic():
            break  # 上海银行: the region is the name
        regions.add(match[1])
        text = rest
    for suffix in ("ジャパン", "日本", "コリア", "코리아", "中国"):
        written = simplified(suffix)
        if text.endswith(written) and len(text) > len(written) + 1:
            regions.add({"ジャパン": "日本", "コリア": "韩国", "코리아": "한국"}.get(suffix, written))
            text = text[: -len(written)]
    return text, regions


def _without_trade(core: str) -> tuple[str, tuple[str, ...]]:
    trade, brand = list[str](), core
    while (match := _trade_end().search(brand)) and match.start() >= 2:
        trade.insert(0, match[0])
        brand = brand[: match.start()]
    return brand, tuple(trade)


def _han_region(text: str) -> str:
    match = re.fullmatch(_region_start().pattern, text)
    return match[1] if match else ""


# -- word lists, folded


def _folded(texts: Iterable[str]) -> set[str]:
    return {"".join(folded_words(text)) for text in texts} - {""}


def _any_of(texts: Iterable[str]) -> str:
    return "|".join(sorted(map(re.escape, texts), key=lambda text: (-len(text), text)))


@cache
def _region_start() -> re.Pattern[str]:
    names = _folded(name for group in data("regions.toml")["han"].values() for name in group)
    return re.compile(f"({_any_of(names)}){_UNIT}")


@cache
def _wide_generic() -> frozenset[str]:
    return frozenset(folded_japanese(text) for text in _folded(company_words()["without_spaces"]["generic"]))


@cache
def _trade_end() -> re.Pattern[str]:
    return re.compile(f"(?:{_any_of(_wide_generic())})$")


@cache
def _translations() -> Mapping[str, frozenset[str]]:
    """Return the words that names in Latin letters have for what a company does."""
    found = dict[str, set[str]]()
    for word, texts in company_words()["translations"].items():
        for text in texts:
            found.setdefault(folded_japanese("".join(folded_words(text))), set()).add(word)
    return {text: frozenset(words) for text, words in found.items()}


@cache
def _meanings() -> Mapping[str, frozenset[str]]:
    found = {text: set(words) for text, words in _translations().items()}
    for word, texts in company_words()["meanings"].items():
        for text in texts:
            found.setdefault(folded_japanese("".join(folded_words(text))), set()).add(word)
    return {text: frozenset(words) for text, words in found.items()}


@cache
def _wide_groups() -> tuple[str, ...]:
    return tuple(sorted(_folded(company_words()["without_spaces"]["group"]), key=lambda text: (-len(text), text)))


@cache
def _branch_pattern() -> re.Pattern[str]:
    return re.compile(f"(?:{_any_of(_folded(company_words()['without_spaces']['branch']))})$")


@cache
def _head_office_pattern() -> re.Pattern[str]:
    return re.compile(f"(?:{_any_of(_folded(company_words()['without_spaces']['head_office']))})$")


@cache
def _glued_inside() -> tuple[tuple[str, str], ...]:
    forms = {
        "".join(folded_words(written)): id
        for id, form in data("legal_forms.toml")["forms"].items()
        for written in form.get("glued", ())
        if len(written) > 2
    }
    return tuple(sorted(forms.items(), key=lambda pair: (-len(pair[0]), pair[0])))


@cache
def _region_tree() -> PhraseTree:
    regions = data("regions.toml")["latin"]
    return PhraseTree({tuple(name.split()): id for id, names in regions.items() for name in names}, backwards=False)


@cache
def _more_forms() -> PhraseTree:
    """Return ways to write legal forms that the normal form, which must not change, does not know."""
    known = company_words()["matching"]["more_forms"]
    return PhraseTree(
        {tuple(folded_words(text)): form for form, texts in known.items() for text in texts}, backwards=True
    )


@cache
def _transliterated_front() -> PhraseTree:
    """Forms in front of a name that have several transliterations, by their skeletons."""
    forms = data("legal_forms.toml")["forms"]
    long = [(id, folded_words(text)) for id, form in forms.items() for text in form.get("front", ())]
    return PhraseTree(
        {
            tuple(skeleton(latin(word)) for word in words): id
            for id, words in long
            if len(words) > 1 and len(words[0]) > 4
        },
        backwards=False,
    )


@cache
def countries_around() -> Mapping[str, str]:
    """Return the country of each region that lies in one."""
    return {region: country for country, regions in data("regions.toml")["within"].items() for region in regions}


@cache
def countries_of_regions() -> Mapping[str, str]:
    return dict(data("regions.toml")["countries"])


@cache
def _branch_tree() -> PhraseTree:
    return PhraseTree(
        {tuple(folded_words(text)): "branch" for text in company_words()["matching"]["branch"]}, backwards=False
    )


@cache
def _minor() -> frozenset[str]:
    return frozenset(_folded(company_words()["matching"]["minor"])) | {"company", "corporation"}


@cache
def _generic() -> frozenset[str]:
    words = company_words()
    stems = frozenset(words["stems"].values())
    return frozenset(_folded(words["matching"]["generic"])) | frozenset(words["abbreviations"]) | stems


@cache
def left_out_words() -> frozenset[str]:
    """Return the generic words that companies leave out of their own name."""
    return frozenset(_folded(company_words()["matching"]["left_out"]))


@cache
def words_left_out_in_speech() -> frozenset[str]:
    """Return the generic words that people leave out where they leave out the legal form, too: Toyota Motor."""
    return frozenset(_folded(company_words()["matching"]["left_out_in_speech"]))


@cache
def _group_words() -> frozenset[str]:
    return frozenset(_folded(company_words()["matching"]["group"]))


@cache
def _abbreviations() -> Mapping[str, str]:
    known = company_words()["abbreviations"] | company_words()["spellings"]
    return {short: long for long, shorts in known.items() for short in shorts}


@cache
def _stems() -> Mapping[str, str]:
    return dict(company_words()["stems"])


@cache
def _expansions() -> Mapping[str, tuple[str, ...]]:
    return {short: tuple(words) for short, words in company_words()["expansions"].items()}


@cache
def _spelled_numbers() -> Mapping[str, str]:
    return {word: number for number, words in company_words()["numbers"].items() for word in words}
