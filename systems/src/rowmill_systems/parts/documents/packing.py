"""Convert documents to JSON and back, for pipes and databases."""

from collections.abc import Mapping
from typing import Any

from rowmill_systems.parts.documents.document import Box, Document, Kind, Line, Page, Word

VERSION = 1


def to_json(document: Document) -> dict[str, Any]:
    """Convert a document. Places are lists and not objects: a page has thousands of them."""
    return {
        "version": VERSION,
        "kind": document.kind.value,
        "media_type": document.media_type,
        "language": document.language,
        "facts": dict(document.facts),
        "pages": [
            {
                "number": page.number,
                "title": page.title,
                "scanned": page.scanned,
                "lines": [[line.text, [_word(word) for word in line.words]] for line in page.lines],
            }
            for page in document.pages
        ],
    }


def _word(word: Word) -> list[Any]:
    return [word.text, word.box.left, word.box.top, word.box.right, word.box.bottom]


def from_json(packed: Mapping[str, Any]) -> Document:
    """Convert back. Raises ValueError for anything that `to_json` did not make."""
    try:
        if packed["version"] != VERSION:
            raise ValueError("a document of another version")
        return Document(
            kind=Kind(packed["kind"]),
            media_type=_text(packed["media_type"]),
            pages=tuple(_page(page) for page in packed["pages"]),
            language=None if packed["language"] is None else _text(packed["language"]),
            facts={_text(name): _fact(value) for name, value in packed["facts"].items()},
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("not a packed document") from error


def _page(packed: Mapping[str, Any]) -> Page:
    if not isinstance(packed["number"], int) or not isinstance(packed["scanned"], bool):
        raise ValueError("not a packed page")
    lines = tuple(_line(text, words) for text, words in packed["lines"])
    return Page(packed["number"], lines, packed["scanned"], _text(packed["title"]))


def _line(text: Any, words: list[Any]) -> Line:
    return Line(_text(text), tuple(Word(_text(word), Box(*map(float, places))) for word, *places in words))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("not a text")
    return value


def _fact(value: Any) -> str | int | float:
    if not isinstance(value, str | int | float):
        raise ValueError("not a fact")
    return value
