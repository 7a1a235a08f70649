"""Find labels: cells that say `Invoice no.`, or what OCR made of it."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rowmill_systems.intake.fields.catalogue import Catalogue, Field, FieldType
from rowmill_systems.intake.fields.folding import CJK, TOKEN, skeleton
from rowmill_systems.intake.fields.layout import Cell
from rowmill_systems.intake.fields.words import words

LONGEST_LABEL = 7
LONGEST_CELL = 400
SHORT = 3
NUMBERED = re.compile(r"(?:nummer|nr)$")
NUMBER_WORDS = frozenset(map(skeleton, words("numbers")))
LINKS = frozenset(map(skeleton, words("links")))
OWNERS = frozenset(map(skeleton, words("owners")))
CODES = frozenset(map(skeleton, words("asides")))
ASIDE = re.compile(r"\s*[(\[（][^()\[\]（）]{0,40}[)\]）]")
SEPARATOR = re.compile(r"\s*[:：=#№]|\s+[-–—]\s")


@dataclass(frozen=True, slots=True)
class Token:
    start: int
    end: int
    key: str


@dataclass(frozen=True, slots=True)
class Hit:
    """A label in a cell. `start` and `end` are places in the text of the line."""

    cell: Cell
    start: int
    end: int
    fields: tuple[Field, ...]
    """Empty for a label of something else."""
    leading: bool
    """The cell begins with it."""
    colon: bool
    """A colon or the like follows."""
    qualified: bool
    """Another word stands beside it, and may change its meaning: `Total weight`."""
    fuzzy: bool
    """OCR may have changed a letter."""

    @property
    def alone(self) -> bool:
        """Whether the cell is nothing but the label."""
        return self.leading and not any(sign.isalnum() for sign in self.cell.text[self.end - self.cell.start :])


class Labels:
    """The labels of a catalogue, for documents of one type."""

    def __init__(self, catalogue: Catalogue, doc_type: str | None) -> None:
        self.phrases: dict[str, tuple[Field, ...]] = {key: () for name in catalogue.ignore if (key := key_of(name))}
        wanted = catalogue.for_type(doc_type)
        for field in catalogue.fields:
            if field not in wanted:
                for name in field.names:
                    self.phrases.setdefault(key_of(name), ())
        claims: dict[str, list[Field]] = {}
        for field in wanted:
            for key in dict.fromkeys(map(key_of, field.names)):
                claims.setdefault(key, []).append(field)
        self.phrases |= {key: _owners(fields) for key, fields in claims.items() if key}
        self.without_one = _deletions(self.phrases)

    def hits(self, cell: Cell, *, scanned: bool) -> list[Hit]:
        """Return the labels of a cell, from left to right; of two that overlap, the longer one."""
        tokens = tokens_of(cell.text[:LONGEST_CELL])
        found, place = [], 0
        while place < len(tokens):
            length, fields, fuzzy = self._longest(tokens, place, scanned)
            if length and (hit := _hit(cell, tokens, place, length, fields, fuzzy)):
                found.append(hit)
            place += length or 1
        return found

    def _longest(self, tokens: Sequence[Token], place: int, scanned: bool) -> tuple[int, tuple[Field, ...], bool]:
        first = tokens[place].key
        if first in LINKS and first not in self.phrases:
            return 0, (), False
        keys = list(_growing(tokens, place))
        for length, key in reversed(keys):
            if key in self.phrases:
                return length, self.phrases[key], False
        if scanned:
            for length, key in reversed(keys):
                if len(key) >= 6 and (match := self._nearly(key)):
                    return length, self.phrases[match], True
        return 0, (), False

    def _nearly(self, key: str) -> str | None:
        """Return the label that differs in one character."""
        for place in range(len(key)):
            if match := self.without_one.get(key[:place] + key[place + 1 :]):
                return match
        return self.without_one.get(key)


def _deletions(phrases: Iterable[str]) -> Mapping[str, str]:
    return {
        phrase[:place] + phrase[place + 1 :]: phrase
        for phrase in phrases
        if len(phrase) >= 6
        for place in range(len(phrase))
    }


def _owners(fields: Sequence[Field]) -> tuple[Field, ...]:
    """Return the fields that a label belongs to.

    Fields of several types may share a label, as a rate and its amount. Within one type the field of fewer documents
    has it: `Order date` is the date of an order, and something else on an invoice.
    """
    kept: dict[str, Field] = {}
    for field in fields:
        other = kept.get(field.type)
        if other is None or len(field.doc_types or range(99)) < len(other.doc_types or range(99)):
            kept[field.type] = field
    return tuple(kept.values())


def tokens_of(text: str) -> list[Token]:
    """Return words with their places. Chinese characters are words of their own, beside digits too."""
    found = []
    # A degree sign is how `N°` is often written: as the letter º, it belongs to the word.
    for match in TOKEN.finditer(text.replace("°", "º")):
        start = match.start()
        for part in _scripts(match.group()):
            found.append(Token(start, start + len(part), _token_key(part)))
            start += len(part)
    return found


def _scripts(word: str) -> Iterator[str]:
    if not CJK.search(word):
        yield word
        return
    yield from re.findall(r"[\u3040-\u30ff\u3400-\u9fff]+|[^\u3040-\u30ff\u3400-\u9fff]+", word)


def _token_key(word: str) -> str:
    key = skeleton(word)
    if key in NUMBER_WORDS:
        return "no"
    # Rechnungsnummer, Rechnungsnr.
    return NUMBERED.sub("no", key) if len(key) > 5 else key


def key_of(name: str) -> str:
    """Return what two spellings of a label have in common."""
    keys = [token.key for token in tokens_of(name)]
    return "".join(key for key in keys if key not in LINKS) or "".join(keys)


def _growing(tokens: Sequence[Token], place: int) -> Iterator[tuple[int, str]]:
    key = ""
    for length, token in enumerate(tokens[place : place + LONGEST_LABEL], 1):
        if token.key in LINKS and length > 1:
            continue
        key += token.key
        yield length, key


def _hit(
    cell: Cell, tokens: Sequence[Token], place: int, length: int, fields: tuple[Field, ...], fuzzy: bool
) -> Hit | None:
    text, first, last = cell.text, tokens[place], tokens[place + length - 1]
    end = last.end
    while end < len(text) and text[end] in ".)º°":
        end += 1
    if aside := ASIDE.match(text, end):
        end = aside.end()
    separator = SEPARATOR.match(text, end)
    before = tokens[place - 1] if place else None
    leading = before is None or not any(sign.isalnum() for sign in text[: first.start])
    qualified = not leading and before is not None and _joined(text[before.end : first.start]) and _telling(before.key)
    if last.end - first.start <= SHORT and not _short_is_label(
        text, first.start, end, leading, bool(separator), fields
    ):
        return None
    if not separator and not qualified:
        qualified = _followed(text, end)
    return Hit(
        cell, cell.start + first.start, cell.start + end, fields, leading, bool(separator), qualified, fuzzy
    )  # fmt: skip


def _short_is_label(text: str, start: int, end: int, leading: bool, colon: bool, fields: Sequence[Field]) -> bool:
    """Tell whether a short word is a label: `RE` of RE-2026 is not, `Re:` is. Short labels of names need a colon, or a
    cell of their own."""
    if not colon and text[end : end + 1] in ("-", "/", "_", "&"):
        return False
    spoken = any(field.type not in (FieldType.PARTY, FieldType.TEXT) for field in fields)
    if not leading:
        return spoken and end - start >= SHORT
    return colon or spoken or not text[end:].strip(" .:")


def _joined(between: str) -> bool:
    return all(sign in " -" for sign in between)


def _telling(key: str) -> bool:
    return bool(key) and key not in LINKS and key not in OWNERS and key not in CODES and key not in NUMBER_WORDS


def _followed(text: str, end: int) -> bool:
    """Tell whether one or two more words come before the colon or the end of the cell."""
    rest = text[end : end + 60]
    words = re.match(r"[\s./'’-]*((?:[^\W\d_]+[\s./'’-]*){1,3})(?=[:：]|$)", rest)
    return words is not None and any(_telling(skeleton(word)) for word in TOKEN.findall(words.group(1)))
