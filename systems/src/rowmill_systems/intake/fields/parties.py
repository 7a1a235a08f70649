"""Find names of companies by their legal forms, in a cell or in a sentence."""

import re
from dataclasses import dataclass

from rowmill_systems.intake.fields.folding import plain
from rowmill_systems.intake.fields.words import words

FORMS = (
    r"GmbH\s?&\s?Co\.?\s?(?:KGaA|KG|OHG)|GmbH|gGmbH|AG\s?&\s?Co\.?\s?KG|AG|KGaA|KG|OHG|GbR|UG(?:\s?\(haftungsbeschränkt\))?|e\.\s?K\.|e\.\s?V\.|eG|SE"
    r"|Ltd\.?|Limited|LLC|L\.L\.C\.|LLP|PLC|plc|Inc\.?|Incorporated|Corp\.?|Corporation|Pty\.?\sLtd\.?|Co\.,?\sLtd\.?"
    r"|S\.\s?A\.\s?R\.\s?L\.?|SARL|Sàrl|S\.\s?A\.\s?S\.?|SASU?|EURL|SNC|S\.\s?A\.(?!\s?[A-Z]\.)|SA|S\.\s?p\.\s?A\.?|SpA|SPA|S\.\s?r\.\s?l\.?|Srl|SRL|S\.\s?n\.\s?c\.?|S\.\s?a\.\s?s\.?"
    r"|S\.\s?L\.\s?U?\.?|SLU?|S\.\s?Coop\.?|B\.\s?V\.|BV|N\.\s?V\.|NV|VOF|AB|Oyj?|ApS|A/S|AS|Sp\.?\sz\s?o\.\s?o\.?|Kft\.?|s\.r\.o\.|Lda\.?"
)
FORM = re.compile(rf"(?<=[\w&.)'’,-]) ?,?(?<![^\W_])(?:{FORMS})(?![^\W_])")
CHINESE = re.compile(r"[\u3400-\u9fff（）()A-Za-z0-9]{2,30}?(?:股份有限公司|有限责任公司|有限公司|集团|合作社|事务所)")
OPENERS = frozenset(words("openers"))
JOINERS = frozenset(words("joiners"))
WORD = re.compile(r"\S+")
MOST_WORDS = 8


@dataclass(frozen=True, slots=True)
class PartyReading:
    start: int
    end: int
    name: str


def find_parties(text: str) -> list[PartyReading]:
    """Return all companies in a text, from left to right."""
    found: list[PartyReading] = []
    edge = 0
    for match in FORM.finditer(text):
        start = _start(text, edge, match.start())
        if start is not None:
            found.append(PartyReading(start, match.end(), tidy(text[start : match.end()])))
            edge = match.end()
    found += [PartyReading(match.start(), match.end(), match.group()) for match in CHINESE.finditer(text)]
    return found


def _start(text: str, edge: int, form: int) -> int | None:
    """Return where the name before a legal form begins: names are capitalised words, joined by a few small ones."""
    words = list(WORD.finditer(text, max(edge, form - 120), form))[-MOST_WORDS:]
    start = None
    for match in reversed(words):
        word = match.group().strip("„“\"'«»(")
        if not word:
            break
        if plain(word) in JOINERS and start is not None:
            continue
        opens = match.group()[0] in "„“\"'«(·•|,;:"
        capital = word[0].isupper() or word[0].isdigit()
        if word[-1] in ")»”" and start is not None:
            break
        if not capital or plain(word.strip(".,:;")) in OPENERS or (word[-1] in ",;:·•|" and start is not None):
            break
        start = match.start() + len(match.group()) - len(match.group().lstrip("„“\"'«(·•|,;:"))
        if opens:
            break
    return start


def tidy(name: str) -> str:
    return re.sub(r"\s+", " ", name).strip(" ,;:·•|-–")


def same_party(one: str, other: str) -> bool:
    """Tell whether two spellings mean one company: the same letters and digits, dots of the legal form aside."""
    return bool(bare_name(one)) and bare_name(one) == bare_name(other)


def bare_name(name: str) -> str:
    return re.sub(r"[\W_]+", "", plain(name))
