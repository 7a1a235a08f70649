"""From the bytes of an answer to what the model said, as far as it can be read at all."""

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

MOST_TOKENS = 10_000_000
"""A server that says it used more has miscounted."""
MOST_STARTS = 50


class Unreadable(Exception):
    """No JSON, or not that of an answer. Has no text: it would be the model's, or the document's."""


@dataclass(frozen=True, slots=True)
class Said:
    text: str
    refused: bool
    """The model, or a filter before it, does not want to."""


def envelope(content: bytes) -> dict[str, Any]:
    """Empty if there is none: then there is no answer in it either."""
    with suppress(Unreadable):
        found = parsed(content.decode("utf-8", "replace"))
        return found if isinstance(found, dict) else {}
    return {}


def said(answer: dict[str, Any]) -> Said:
    choices = answer.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise Unreadable
    text = message.get("content")
    if isinstance(text, list):  # some servers give it in pieces
        text = "".join(str(piece.get("text", "")) for piece in text if isinstance(piece, dict))
    refused = bool(message.get("refusal")) or choice.get("finish_reason") == "content_filter"
    return Said(text if isinstance(text, str) else "", refused)


def tokens_used(answer: dict[str, Any]) -> int | None:
    """None if the server does not say, or says nonsense."""
    usage = answer.get("usage")
    if not isinstance(usage, dict):
        return None
    halves: list[Any] = [usage.get("prompt_tokens"), usage.get("completion_tokens")]
    counts = halves if usage.get("total_tokens") is None else [usage["total_tokens"]]
    if not all(type(count) is int and 0 <= count <= MOST_TOKENS for count in counts):
        return None
    return sum(map(int, counts))


def object_in(text: str) -> dict[str, Any]:
    """The answer in a text: alone, between fences, or after the model has thought aloud."""
    starts = [place for place, sign in enumerate(text) if sign == "{"][:MOST_STARTS]
    for start in starts:
        try:
            found = parsed(text, start)
        except Unreadable:
            continue
        if isinstance(found, dict) and isinstance(found.get("suggestions"), list):
            return found
    raise Unreadable


def parsed(text: str, start: int | None = None) -> Any:
    """JSON of the whole text, or from a place on. What nests without end, or has endless numbers, is none."""
    with suppress(ValueError, RecursionError):  # a decoder's error carries the whole text with it: it goes no further
        return json.loads(text) if start is None else json.JSONDecoder().raw_decode(text, start)[0]
    raise Unreadable
