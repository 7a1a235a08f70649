"""Nothing is believed: each thing that a model says has to be a field of ours, a value of its type, and on its page."""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rowmill_systems.intake.analysis import Mapped, Suggestion, Unmapped
from rowmill_systems.intake.fields.catalogue import Field, FieldType
from rowmill_systems.intake.fields.model.evidence import Found, Places, letters_of
from rowmill_systems.intake.fields.model.values import read, says, tidy
from rowmill_systems.parts.documents.document import Document

Proof = Callable[[Field, str], bool]
"""Whether the check digits of an id say that it is right."""

MOST_ITEMS = 500
"""Of one answer. The rest is not looked at."""
MOST_VALUES = 20
MOST_UNMAPPED = 20
LONGEST_LABEL = 200
HIGHEST, UNSAID, UNPROVED = 0.9, 0.5, 0.6
"""No more than this, however sure the model is: at best; if the quote does not say the value; if an id has no check
digits."""
INEXACT = 0.8
MUST_BE_SAID = (FieldType.ID, FieldType.EMAIL, FieldType.PHONE)
"""Made of signs, not of meaning: there is no other way to write them."""


@dataclass(slots=True)
class Checked:
    """What stood the check, and how much of the rest was dropped for which reason."""

    suggestions: list[Suggestion] = field(default_factory=list)
    unmapped: list[Unmapped] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)


class Checker:
    """For one document."""

    def __init__(self, document: Document, fields: Sequence[Field], proof: Proof) -> None:
        self._pages = {page.number: Places(page) for page in document.pages}
        self._fields: Mapping[str, Field] = {each.key: each for each in fields}
        self._proof = proof

    def check(self, answer: dict[str, Any], sent: Iterable[int], into: Checked) -> None:
        """`sent` are the pages that the model was shown: it can't know the others."""
        pages = set(sent)
        items = answer["suggestions"]
        notes = answer.get("unmapped")
        notes = notes if isinstance(notes, list) else []
        for item in items[:MOST_ITEMS]:
            kept = self._suggestion(item, pages)
            if isinstance(kept, Suggestion):
                into.suggestions.append(kept)
            else:
                into.dropped[kept] += 1
        for item in notes[:MOST_ITEMS]:
            if note := self._unmapped(item, pages):
                into.unmapped.append(note)
            else:
                into.dropped["unmapped"] += 1
        into.dropped["too_many"] += max(len(items) - MOST_ITEMS, 0) + max(len(notes) - MOST_ITEMS, 0)

    def _suggestion(self, item: object, pages: set[int]) -> Suggestion | str:
        """Return the suggestion of an item, or the reason to drop it."""
        if not isinstance(item, dict):
            return "shape"
        key = item.get("field")
        if not isinstance(key, str) or (wanted := self._fields.get(key)) is None:
            return "field"
        value = read(wanted, item.get("value"), item.get("rows"))
        if value is None:
            return "value"
        found = self._found(item, pages)
        if found is None:
            return "evidence"
        said = says(wanted, value, found.evidence.quote)
        if wanted.type is FieldType.TABLE and not self._on_page(value, found.evidence.page):
            return "evidence"
        if wanted.type in MUST_BE_SAID and not said:
            return "evidence"
        proved = wanted.type is not FieldType.ID or not wanted.scheme or self._proof(wanted, value)
        return Suggestion(key, value, confidence(item.get("confidence"), found, said, proved), found.evidence)

    def _found(self, item: Mapping[str, Any], pages: set[int]) -> Found | None:
        number, quote = item.get("page"), item.get("quote")
        if not isinstance(number, int) or number not in pages or not isinstance(quote, str):
            return None
        return self._pages[number].find(quote)

    def _on_page(self, rows: list[dict[str, str]], page: int) -> bool:
        letters = self._pages[page].letters
        return all(letters_of(cell) in letters for row in rows for cell in row.values())

    def _unmapped(self, item: object, pages: set[int]) -> Unmapped | None:
        if not isinstance(item, dict) or (found := self._found(item, pages)) is None:
            return None
        texts: list[Any] = [item.get("label"), item.get("value")]
        quote = letters_of(found.evidence.quote)
        for text in texts:
            if not isinstance(text, str) or len(text) > LONGEST_LABEL:
                return None
            if not letters_of(text) or letters_of(text) not in quote:
                return None
        label, value = map(tidy, texts)
        return Unmapped(label, value, found.evidence)


def confidence(given: object, found: Found, said: bool, proved: bool) -> float:
    sure = float(given) if isinstance(given, (int, float)) and not isinstance(given, bool) else UNSAID
    sure = min(max(sure, 0.0), 1.0) if math.isfinite(sure) else UNSAID
    most = min(HIGHEST if said else UNSAID, HIGHEST if proved else UNPROVED)
    return round(min(sure, most) * (1.0 if found.exact else INEXACT), 3)


def merged(checked: Checked, fields: Sequence[Field]) -> Mapped:
    """Merge the suggestions of all calls. Each value is kept once, with its highest confidence; a field with a single
    value keeps the most confident."""
    many = {each.key for each in fields if each.many}
    best: dict[tuple[str, str], Suggestion] = {}
    for one in sorted(checked.suggestions, key=lambda one: (-one.confidence, one.evidence.page)):
        best.setdefault((one.field, json.dumps(one.value, sort_keys=True)), one)
    chosen: list[Suggestion] = []
    count: Counter[str] = Counter()
    for one in best.values():
        if count[one.field] < (MOST_VALUES if one.field in many else 1):
            count[one.field] += 1
            chosen.append(one)
    checked.dropped["other_value"] += len(best) - len(chosen)
    place = {each.key: number for number, each in enumerate(fields)}
    chosen.sort(key=lambda one: (place[one.field], one.evidence.page, -one.confidence))
    notes = {(note.label, note.value): note for note in reversed(checked.unmapped)}
    return Mapped(tuple(chosen), tuple(reversed(notes.values()))[:MOST_UNMAPPED])
