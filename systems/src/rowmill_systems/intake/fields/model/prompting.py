"""Build requests for a model: the prompt, the fields, and as many pages as fit."""

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from rowmill_systems.intake.fields.catalogue import Field, FieldType
from rowmill_systems.parts.documents.document import Document, Page
from rowmill_systems.parts.models import estimate_tokens

Part = list[tuple[int, str]]
"""The pages of one call: numbers and texts. A page that is too long for one call is in several."""
LEAST_TOKENS = 200
"""Tokens for pages, however many fields there are."""
AROUND = 10
"""Tokens around the text of a page."""


@cache
def prompt() -> str:
    return files(__package__).joinpath("prompt.md").read_text(encoding="utf-8")


def messages(part: Part, fields: Sequence[Field], doc_type: str | None) -> list[dict[str, str]]:
    """Return the messages of a call. Pages are inside of JSON, so that no text on them can pretend to be the prompt."""
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
    """Replace lone surrogates, which no request can carry."""
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
    """Return the schema of the answer. Strict mode requires all keys, and allows no others."""
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
    """Split pages into calls of so many tokens: between pages, and within a page only if it is too long by itself."""
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
    """Group texts in their order, as many as fit together."""
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
    """Cut a line that is longer than a call. An escaped character has at most six bytes."""
    length = len(line) if size(line) <= tokens else max((tokens - AROUND) // 2 - 1, 1)
    for start in range(0, len(line), max(length, 1)):
        yield line[start : start + length]


def size(text: str) -> int:
    """Return the tokens of a text inside of a request."""
    return estimate_tokens(json.dumps(text, ensure_ascii=False)) + AROUND
