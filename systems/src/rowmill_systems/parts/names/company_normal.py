"""The normal form of a company's name, and the steps to it that the comparison shares.

The normal form is a contract: temporary ids are derived from it. It may bring spellings of one name together, and never
two companies: legal forms, numbers, regions and branches stay. `normal_forms.jsonl` of the tests holds it.
"""

import hashlib
import re
import tomllib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

MOST_LETTERS = 300
"""The rest of a longer name goes into a digest, so that two long names stay two."""
MOST_FORMS = 3
_SPECIAL = {
    "ä": "ae", "ö": "oe", "ü": "ue", "ø": "oe", "æ": "ae", "œ": "oe", "å": "aa", "ß": "ss", "ł": "l", "đ": "d",
    "ð": "d", "þ": "th", "ı": "i", "ħ": "h", "ŋ": "n", "ё": "е", "ς": "σ", "ə": "e", "ك": "ک", "ي": "ی", "ى": "ی",
    "ة": "ه", "ـ": "", "&": " and ", "+": " plus ", "#": " sharp ", "%": " percent ", "@": " at ", "№": " no ",
    "・": "", "‧": "",
}  # fmt: skip
"""Letters that Unicode does not decompose, those that people write in two ways, and signs that are read aloud."""
_APOSTROPHES = frozenset("'’‘ʼʻ′`´ʹ׳")
_DROPPED_FIRST = {ord(sign): None for sign in "™®©℠ªº"} | {ord("№"): " no "}
"""NFKC would make letters of these."""
_HEBREW_QUOTE = re.compile(r'(?<=[א-ת])["״](?=[א-ת])')
"""A quotation mark inside a Hebrew abbreviation."""
_DOTTED = re.compile(r"(?<![^\W_])[^\W\d_](?:\.[^\W\d_])+(?![^\W_])\.?")
_DOTS_AND_SPACES = re.compile(r"(?<![^\W_])[^\W\d_]\.(?: [^\W\d_]\.)* [^\W\d_](?:\.|$)(?![^\W_])")
"""S.A., and S. A.; in "Rossi & C. S.a.s." the C is no part of the form."""
_SLASHED = re.compile(r"(?<![^\W_])([^\W\d_])/([^\W\d_])(?:/([^\W\d_]))?(?![^\W_])")
_BRACKETS = re.compile(r"[(\[{<〈《「『【〔]")
_BRACKETED = re.compile(r"[(\[{<〈《「『【〔]([^()\[\]{}<>〈〉《》「」『』【】〔〕]*)[)\]}>〉》」』】〕]")
_WIDE = re.compile(r"[⺀-〿぀-ヿ㐀-鿿가-힯豈-﫿฀-๿]")
"""Letters of scripts that are written without spaces, or with spaces as people please."""
_SPACE_BESIDE_WIDE = re.compile(r"(?<=[⺀-〿぀-ヿ㐀-鿿가-힯豈-﫿]) +| +(?=[⺀-〿぀-ヿ㐀-鿿가-힯豈-﫿])")
_HAN = re.compile(r"[㐀-鿿豈-﫿]")
_SHORT_FORMS = {
    "株": "株式会社", "有": "有限会社", "同": "合同会社", "資": "合資会社", "名": "合名会社", "財": "財団法人",
    "社": "社団法人", "学": "学校法人", "医": "医療法人", "주": "주식회사",
    "유": "유한회사", "사": "사단법인", "재": "재단법인",
}  # fmt: skip
"""Legal forms that brackets shorten to one character. (合) may mean three of them."""


@dataclass(frozen=True, slots=True)
class LegalForm:
    """A legal form: what a name ends with, or begins with, that says what kind of company it is."""

    id: str
    kinds: frozenset[str]
    countries: frozenset[str]


@dataclass(frozen=True, slots=True)
class CompanyParts:
    """A name, folded and taken apart."""

    words: tuple[str, ...]
    """Without the legal form. Scripts without spaces are one word."""
    forms: tuple[str, ...]
    """The ids of legal forms, as they follow each other."""
    former: tuple[str, ...] = ()
    """Earlier names that the name itself mentions, as written."""


class PhraseTree:
    """Phrases by their words, to find the longest that a name begins or ends with."""

    __slots__ = ("_backwards", "root")

    def __init__(self, phrases: Mapping[tuple[str, ...], str], *, backwards: bool) -> None:
        self._backwards = backwards
        self.root: dict[str, Any] = {}
        for phrase, value in phrases.items():
            node = self.root
            for word in reversed(phrase) if backwards else phrase:
                node = node.setdefault(word, {})
            node.setdefault("", value)

    def longest(self, words: Sequence[str], end: int) -> tuple[int, str]:
        """Return how many words the longest phrase has that `words[:end]` ends with, and its value. (0, "") if none.

        A tree that is not backwards looks at the beginning of `words[end:]`.
        """
        node, size, found = self.root, 0, (0, "")
        last = end if self._backwards else len(words) - end
        while size < last:
            following = node.get(words[end - 1 - size] if self._backwards else words[end + size])
            if following is None:
                break
            node, size = following, size + 1
            if "" in node:
                found = (size, node[""])
        return found


def company_parts(name: str) -> CompanyParts:
    """Fold a name and take it apart: words, legal forms, earlier names. Cut at MOST_LETTERS."""
    text = name.strip()[:MOST_LETTERS]
    former = _former_in_brackets(text) if _BRACKETS.search(text) else ()
    words = _words(text)
    words, forms = _without_forms(words)
    return CompanyParts(tuple(words), tuple(forms), former)


def normal_form(name: str) -> str:
    """Return the normal form of a name. Empty for a name that names nothing."""
    text = name.strip()
    if len(text) > MOST_LETTERS:
        text = " ".join(text.split())
    rest = text[MOST_LETTERS:]
    words = _words(text[:MOST_LETTERS])
    if not words or (len(words) < 5 and " ".join(words) in _placeholders()):
        return ""
    words, forms = _without_forms(words)
    normal = " ".join(words)
    if forms:
        normal = f"{normal} {' '.join(forms)}"
    if rest or len(normal) > 2 * MOST_LETTERS:
        digest = hashlib.sha256((normal + "\n" + rest).encode("utf-8", "surrogatepass")).hexdigest()
        normal = f"{normal[:MOST_LETTERS]} {digest[:32]}"
    return normal


def folded_words(text: str) -> list[str]:
    """Return the words of a text: lower case, without accents and punctuation, dotted letters joined."""
    text = text.lower() if text.isascii() else _compatible(text).casefold()
    if "." in text:
        text = _DOTTED.sub(_joined, text)
        if ". " in text:
            text = _DOTS_AND_SPACES.sub(_joined, text)
    if "/" in text:
        text = _SLASHED.sub(_joined_slashes, text)
    if " + " in text:
        text = text.replace(" + ", " & ")
    if text.isascii():
        if "&" in text:
            text = text.replace("&", " and ")
        return text.translate(_ASCII).split()
    text = text.translate(_FOLDED)
    if not unicodedata.is_normalized("NFC", text):
        text = unicodedata.normalize("NFC", text)
    if _WIDE.search(text):
        text = _SPACE_BESIDE_WIDE.sub("", text.strip()).translate(_SIMPLIFIED)
    return text.split()


def _compatible(text: str) -> str:
    """Return a text with one width of letters, without signs of trade marks."""
    text = unicodedata.normalize("NFKC", text.translate(_DROPPED_FIRST))
    return _HEBREW_QUOTE.sub("", text) if '"' in text or "״" in text else text


def simplified(text: str) -> str:
    """Return a text with simplified Chinese characters for traditional ones."""
    return text.translate(_SIMPLIFIED)


@cache
def legal_forms() -> Mapping[str, LegalForm]:
    return {
        id: LegalForm(id, frozenset(form["kinds"]), frozenset(form["countries"].split()))
        for id, form in _form_data().items()
    }


@cache
def series_of_forms() -> Mapping[str, frozenset[str]]:
    """Return the names of the series that each legal form is in."""
    found = dict[str, set[str]]()
    for name, forms in _FORM_DATA["series"].items():
        for form in forms:
            found.setdefault(form, set()).add(name)
    return {form: frozenset(names) for form, names in found.items()}


@cache
def data(file: str) -> dict[str, Any]:
    """Return one of the data files beside this module."""
    return tomllib.loads((files(__package__) / file).read_text("utf-8"))


@cache
def company_words() -> dict[str, Any]:
    return data("company_words.toml")


def _words(text: str) -> list[str]:
    if not text.isascii() or _BRACKETS.search(text):
        text = _without_decorations(text)
    words = folded_words(text)
    if len(words) > 2 and not _CONJUNCTIONS.isdisjoint(words):
        words[1:-1] = ["and" if word in _CONJUNCTIONS else word for word in words[1:-1]]
    if len(words) > 1 and words[0] == "the" != words[1]:
        del words[0]
    elif len(words) > 2 and words[-1] == "the":
        del words[-1]
    if not _FORMER_WORDS.isdisjoint(words):
        words = _before_former(words)
    return words


def _without_decorations(text: str) -> str:
    """Leave out what brackets say of status and earlier names; write out what brackets shorten."""
    text = _compatible(text)
    if _BRACKETS.search(text):
        text = _BRACKETED.sub(_bracket, text)
    return text


def _bracket(match: re.Match[str]) -> str:
    inner = match[1].strip()
    if short := _SHORT_FORMS.get(inner):
        return short
    if _is_former(inner) or _is_status(inner):
        return " "
    return match[0]


def _former_in_brackets(text: str) -> tuple[str, ...]:
    normal = unicodedata.normalize("NFKC", text)
    return tuple(former for inner in _BRACKETED.findall(normal) if (former := _former_name(inner.strip())))


def _former_name(inner: str) -> str:
    """Return the name behind "formerly" or 原名; empty if the text does not begin so."""
    match = _former_pattern().match(inner)
    if not match or (_WIDE.match(inner) and len(inner) < 6 and ":" not in inner):
        return ""  # (原味) is no earlier name
    return inner[match.end() :].strip(" :：,")


def _is_former(inner: str) -> bool:
    return bool(_former_name(inner))


def _is_status(inner: str) -> bool:
    if _WIDE.search(inner):
        return "".join(folded_words(inner)) in _statuses_glued()
    words = folded_words(inner)
    size, _ = _STATUSES.longest(words, len(words))
    return bool(words) and size == len(words)


def _before_former(words: list[str]) -> list[str]:
    place = next((place for place, word in enumerate(words) if place and word in _FORMER_WORDS), 0)
    return words[:place] if place else words


def _without_forms(words: list[str]) -> tuple[list[str], list[str]]:
    """Take status and legal forms off the end and the beginning of a name. At least one word stays."""
    if not words:
        return words, []
    end, forms = len(words), list[str]()
    if words[-1] in _STATUSES.root:
        size, _ = _STATUSES.longest(words, end)
        if 0 < size < end:
            end -= size
    if words[end - 1] in _STATUSES_BEHIND.root and end > 2:
        size, _ = _STATUSES_BEHIND.longest(words, end)
        if size < end - 1 and _BEHIND.longest(words, end - size)[0]:
            end -= size
    while len(forms) < MOST_FORMS:
        size, form = _BEHIND.longest(words, end) if words[end - 1] in _BEHIND.root else (0, "")
        if not 0 < size < end:
            break
        end -= size
        forms.insert(0, form)
    start = 0
    if words[0] in _IN_FRONT.root and end > 1:
        size, form = _IN_FRONT.longest(words[:end], 0)
        if 0 < size < end:
            if not forms:
                start, forms = size, [form]
            elif form in forms or not series_of_forms().get(form, frozenset()).isdisjoint(_series(forms)):
                start = size
                forms = forms if form in forms else [form, *forms]
            # another form behind: what stands in front is a word of the name, as in SAS Institute Inc
    if len(forms) == 2 and not _series(forms[:1]).isdisjoint(_series(forms[1:])):
        forms = sorted(set(forms))  # PT Astra Tbk is Astra Tbk PT
    kept = words[start:end] if start or end < len(words) else words
    if not all(map(str.isascii, kept)) and any(_WIDE.search(word) for word in kept):
        kept, glued = _without_glued(kept)
        forms = glued + forms
    return kept, forms


def _series(forms: Iterable[str]) -> set[str]:
    return {name for form in forms for name in series_of_forms().get(form, ())}


def _without_glued(words: list[str]) -> tuple[list[str], list[str]]:
    """Take legal forms and status off a name that is written without spaces."""
    text, forms = "".join(words) if len(words) > 1 and all(map(_WIDE.search, words)) else " ".join(words), list[str]()
    for status in _statuses_glued_longest():
        if text.endswith(status) and len(text) - len(status) > 3 and _glued_end().search(text[: -len(status)]):
            text = text[: -len(status)]
            break
    text = text.replace("有限责任公司", "有限公司").replace("责任有限公司", "有限公司")
    while len(forms) < MOST_FORMS and (match := _glued_end().search(text)) and match.start():
        text = text[: match.start()].rstrip()
        forms.insert(0, _glued()[match[0]])
    while len(forms) < MOST_FORMS and (match := _glued_start().match(text)) and match.end() < len(text):
        text = text[match.end() :].lstrip()
        forms.insert(0, _glued()[match[0]])
    return text.split() or words, list(dict.fromkeys(forms))


def _joined(match: re.Match[str]) -> str:
    return match[0].replace(".", "").replace(" ", "") + " "


def _joined_slashes(match: re.Match[str]) -> str:
    return match[1] + match[2] + (match[3] or "")


def _fold(letter: str) -> str:
    if (special := _SPECIAL.get(letter)) is not None:
        return special
    if letter in _APOSTROPHES:
        return ""
    mark = unicodedata.combining(letter)
    if mark == 1 or 10 <= mark <= 36 or mark >= 200:
        return ""  # an accent that could not be composed. Marks in between are vowels, or change the letter
    match unicodedata.category(letter)[0]:
        case "L":
            return _base(letter)
        case "N" | "M":
            return letter
        case "C" if not letter.isspace():
            return ""  # joiners, soft hyphens: nothing that is seen
    return " "


def _base(letter: str) -> str:
    """Return a Latin, Greek, Hebrew or Arabic letter without its accents.

    The й of Cyrillic and the ば of kana are letters of their own.
    """
    parts = unicodedata.normalize("NFD", letter)
    if len(parts) == 1:
        return letter
    script = unicodedata.name(parts[0], "").split(" ")[0]
    if script not in ("LATIN", "GREEK", "HEBREW", "ARABIC"):
        return letter
    return "".join(_SPECIAL.get(part, part) for part in parts if not unicodedata.combining(part))


class _NormalLetters(dict[int, str]):
    """A table for `str.translate`, filled on demand. Alphabets are remembered; Chinese characters are too many."""

    def __missing__(self, code: int) -> str:
        letter = _fold(chr(code))
        if code < 0x3000:
            self[code] = letter
        return letter


class _Simplified(dict[int, str]):
    """A table for `str.translate` from traditional to simplified characters, filled on demand."""

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        if _HAN.match(letter):
            letter = _converter().convert(letter)
        self[code] = letter
        return letter


@cache
def _converter() -> Any:
    try:
        from opencc_purepy import OpenCC
    except ImportError as error:
        raise ImportError(
            "names in Chinese characters need opencc-purepy. Run: pip install 'rowmill-systems[companies]'"
        ) from error
    return OpenCC("t2s")


def _form_data() -> dict[str, Any]:
    forms: dict[str, Any] = _FORM_DATA["forms"]
    return forms


def _phrases(texts: Iterable[str], value: str) -> dict[tuple[str, ...], str]:
    """Return the words of each text, and of the same text with its dots and spaces read in other ways."""
    return {words: value for text in texts if (words := tuple(folded_words(text)))}


@cache
def _placeholders() -> frozenset[str]:
    known = company_words()["normal"]["placeholders"]
    return frozenset(" ".join(folded_words(text)) for text in known) - {""}


@cache
def _former_pattern() -> re.Pattern[str]:
    normal = company_words()["normal"]
    spaced = "|".join(re.escape(word) for word in sorted(normal["former"], key=len, reverse=True))
    glued = "|".join(re.escape(word) for word in sorted(normal["former_glued"], key=len, reverse=True))
    return re.compile(rf"(?:(?:{spaced})(?![^\W_])[.:]?|(?:{glued})[:为名是称]?)\s*(?=\S)", re.IGNORECASE)


@cache
def _statuses_glued() -> frozenset[str]:
    return frozenset("".join(folded_words(text)) for text in company_words()["normal"]["statuses_glued"])


@cache
def _statuses_glued_longest() -> tuple[str, ...]:
    return tuple(sorted(_statuses_glued(), key=lambda text: (-len(text), text)))


@cache
def _glued() -> Mapping[str, str]:
    found = {}
    for id, form in _form_data().items():
        for text in form.get("glued", ()):
            found[text] = found["".join(folded_words(text))] = id
    return found


@cache
def _glued_end() -> re.Pattern[str]:
    """公司 behind 分, 支, 总 and 子 is a branch or a subsidiary, and no form."""
    forms = sorted(map(re.escape, set(_glued()) - {"公司"}), key=len, reverse=True)
    return re.compile(f"(?:{'|'.join(forms)}|(?<![分支总子])公司)$")


@cache
def _glued_start() -> re.Pattern[str]:
    never = {"公司", "有限公司", "股份公司"}
    return re.compile("|".join(sorted(map(re.escape, set(_glued()) - never), key=len, reverse=True)))


_ASCII = {code: " " if not chr(code).isalnum() else chr(code) for code in range(128)} | {
    ord("'"): "", ord("`"): "", ord("+"): " plus ", ord("#"): " sharp ", ord("%"): " percent ",
    ord("@"): " at ",
}  # fmt: skip
_FOLDED = _NormalLetters()
_SIMPLIFIED = _Simplified()
_FORM_DATA = data("legal_forms.toml")
_NORMAL = company_words()["normal"]
_CONJUNCTIONS = frozenset(_NORMAL["conjunctions"])
_FORMER_WORDS = frozenset(words[0] for text in _NORMAL["former_anywhere"] if len(words := folded_words(text)) == 1)
_STATUSES = PhraseTree(_phrases(_NORMAL["statuses"], "status"), backwards=True)
_STATUSES_BEHIND = PhraseTree(_phrases(_NORMAL["statuses_behind_a_form"], "status"), backwards=True)
_BEHIND = PhraseTree(
    {words: id for id, form in _form_data().items() for words in _phrases((*form.get("names", ()), id), id)},
    backwards=True,
)
_IN_FRONT = PhraseTree(
    {words: id for id, form in _form_data().items() for words in _phrases(form.get("front", ()), id)}, backwards=False
)
