"""What a model is asked: the prompt, the fields, and as many pages as fit into a call."""

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from rowmill_systems.intake.fields.catalogue import Field, FieldType
from rowmill_systems.parts.documents.document import Document, Page
from rowmill_systems.parts.models import estimate_tokens

Part = list[tuple[int, str]]
"""Pages of one call: their numbers and texts. A page that is too long for one call stands in several."""
LEAST_TOKENS = 200
"""For pages, however many fields there are."""
AROUND = 10
"""Tokens that stand around the text of a page."""


@cache
def prompt() -> str:
    return files(__package__).joinpath("prompt.md").read_text(encoding="utf-8")


def messages(part: Part, fields: Sequence[Field], doc_type: str | None) -> list[dict[str, str]]:
    """Pages are inside of JSON: no text on them can end the place where text of pages stands."""
    asked = {
        "doc_type": doc_type,
        "fields": [described(field) for field in fields],
        "pages": [{"page": number, "text": text} for number, text in part],
    }
    return [
        {"role": "system", "content": prompt()},
        {"role": "user", "content": sound(json.dumps(asked, ensure_ascii=False))},
    ]


def sound(text: str) -> str:
    """Without halves of signs, which some files have and no request can carry."""
    return text.encode("utf-8", "replace").decode("utf-8")


def described(field: Field) -> dict[str, Any]:
    told: dict[str, Any] = {"key": field.key, "label": field.label, "type": field.type.value}
    if field.type is FieldType.TABLE:
        told["columns"] = columns_of(field)
    elif field.scheme:
        told["scheme"] = field.scheme
    if field.synonyms:
        told["also_called"] = list(field.synonyms)
    if field.many:
        told["many"] = True
    return told


def columns_of(field: Field) -> list[str]:
    return [column.strip() for column in field.scheme.split(",") if column.strip()]


def schema(fields: Sequence[Field]) -> dict[str, Any]:
    """In strict mode everything is required and nothing else is allowed."""
    text, whole = {"type": "string"}, {"type": "integer"}
    suggestion = {
        "field": {"type": "string", "enum": [field.key for field in fields]},
        "value": text,
        "rows": {"type": "array", "items": {"type": "array", "items": text}},
        "page": whole,
        "quote": text,
        "confidence": {"type": "number"},
    }
    unmapped = {"label": text, "value": text, "page": whole, "quote": text}
    return an_object({
        "suggestions": {"type": "array", "items": an_object(suggestion)},
        "unmapped": {"type": "array", "items": an_object(unmapped)},
    })  # fmt: skip


def an_object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def split(document: Document, tokens: int) -> Iterator[Part]:
    """The pages in calls of so many tokens, broken between pages; within a page only if it is too long by itself."""
    return packed(((page.number, text) for page in document.pages for text in pieces(page, tokens)), tokens)


def pieces(page: Page, tokens: int) -> Iterator[str]:
    if not page.text.strip():
        return
    if size(page.text) <= tokens:
        yield page.text
        return
    lines = ((page.number, piece) for line in page.lines for piece in cut(line.text, tokens))
    for part in packed(lines, tokens):
        yield "\n".join(text for _, text in part)


def packed(texts: Iterable[tuple[int, str]], tokens: int) -> Iterator[Part]:
    """As many texts together as fit, in their order."""
    part: Part = []
    room = tokens
    for number, text in texts:
        if part and size(text) > room:
            yield part
            part, room = [], tokens
        part.append((number, text))
        room -= size(text)
    if part:
        yield part


def cut(line: str, tokens: int) -> Iterator[str]:
    """A line that is longer than a call. A sign has six bytes at the most, where it is escaped."""
    length = len(line) if size(line) <= tokens else max((tokens - AROUND) // 2 - 1, 1)
    for start in range(0, len(line), max(length, 1)):
        yield line[start : start + length]


def size(text: str) -> int:
    """Tokens of a text where it stands in a question."""
    return estimate_tokens(json.dumps(text, ensure_ascii=False)) + AROUND
