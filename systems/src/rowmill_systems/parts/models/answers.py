"""Read what a model's server answers, as far as it can be read."""

import json
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import rowmill as rm

MOST_TOKENS = 10_000_000
"""A server that reports more has miscounted."""
MOST_STARTS = 50


class ModelAnswerUnreadable(rm.TransientError):
    """The answer is not JSON, or of another form than was asked for. Quotes nothing of it."""

    code = "model_answer"

    def __init__(self) -> None:
        super().__init__("the model's answer can't be read")


@dataclass(frozen=True, slots=True)
class ChatReply:
    text: str
    refused: bool = False
    """The model, or a filter before it, refuses."""


def read_body(content: bytes) -> dict[str, Any]:
    """Return the JSON object of a body; an empty one if there is none."""
    with suppress(ModelAnswerUnreadable):
        found = _parse(content.decode("utf-8", "replace"))
        return found if isinstance(found, dict) else {}
    return {}


def chat_reply(answer: dict[str, Any]) -> ChatReply:
    """Return the first choice of a chat completion."""
    choices = answer.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise ModelAnswerUnreadable
    text = message.get("content")
    if isinstance(text, list):  # some servers give it in pieces
        text = "".join(str(piece.get("text", "")) for piece in text if isinstance(piece, dict))
    refused = bool(message.get("refusal")) or choice.get("finish_reason") == "content_filter"
    return ChatReply(text if isinstance(text, str) else "", refused)


def embeddings(answer: dict[str, Any], count: int) -> list[list[float]]:
    """Return the vectors of an answer in the order of the texts: `count` of them, all of one length."""
    data = answer.get("data")
    if not isinstance(data, list) or len(data) != count or not all(isinstance(each, dict) for each in data):
        raise ModelAnswerUnreadable
    # Some servers leave the index out: then the order is that of the texts.
    ordered = sorted(data, key=lambda each: each["index"]) if all(type(e.get("index")) is int for e in data) else data
    vectors = [each.get("embedding") for each in ordered]
    if not all(isinstance(vector, list) and vector and all(map(_is_number, vector)) for vector in vectors):
        raise ModelAnswerUnreadable
    if len({len(vector) for vector in vectors}) > 1:
        raise ModelAnswerUnreadable
    return [[float(number) for number in vector] for vector in vectors]


def tokens_used(answer: dict[str, Any]) -> int | None:
    """Return the tokens that the server reports; None if it reports none, or nonsense."""
    usage = answer.get("usage")
    if not isinstance(usage, dict):
        return None
    halves: list[Any] = [usage.get("prompt_tokens"), usage.get("completion_tokens")]
    counts = halves if usage.get("total_tokens") is None else [usage["total_tokens"]]
    if not all(type(count) is int and 0 <= count <= MOST_TOKENS for count in counts):
        return None
    return sum(map(int, counts))


def find_object(text: str, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Return the first JSON object in a text that is `wanted`: alone, in a code block, or after some words."""
    starts = [place for place, sign in enumerate(text) if sign == "{"][:MOST_STARTS]
    for start in starts:
        try:
            found = _parse(text, start)
        except ModelAnswerUnreadable:
            continue
        if isinstance(found, dict) and wanted(found):
            return found
    raise ModelAnswerUnreadable


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _parse(text: str, start: int | None = None) -> Any:
    """Parse the whole text, or from a place on."""
    # A decoder's error carries the whole text with it: it goes no further.
    with suppress(ValueError, RecursionError):
        return json.loads(text) if start is None else json.JSONDecoder().raw_decode(text, start)[0]
    raise ModelAnswerUnreadable
