"""Answers of a model's server are read as far as they can be."""

from typing import Any

import pytest

from rowmill_systems.parts.models import ModelAnswerUnreadable, find_object
from rowmill_systems.parts.models.answers import chat_reply, embeddings, read_body, tokens_used
from systems.tests.model_server import answer, saying

DEEP = "[" * 200_000
UNREADABLE: dict[str, bytes] = {
    "not json": b"<html>log in, please</html>",
    "empty": b"",
    "no choices": b'{"choices": []}',
    "choice of another shape": b'{"choices": ["yes"]}',
    "a list": b"[1]",
    "prose": saying("I can't find any fields.").body,
    "null": saying(None).body,
    "half": saying('{"suggestions": [{"field": "tot', finish="length").body,
    "other json": saying('{"fields": []}').body,
    "suggestions of another shape": saying('{"suggestions": {"total": 5}}').body,
    "deep": saying(DEEP).body,
    "deep body": DEEP.encode(),
    "long number": saying('{"suggestions": [' + "9" * 5000 + "]}").body,
    "not utf-8": b'{"choices": [\xff\xfe',
}


@pytest.mark.parametrize("content", list(UNREADABLE.values()), ids=list(UNREADABLE))
def test_what_is_no_answer_cannot_be_read(content: bytes) -> None:
    with pytest.raises(ModelAnswerUnreadable) as raised:
        suggestions_in(content)
    assert (raised.value.__cause__, raised.value.__context__) == (None, None)


def test_an_answer_is_read() -> None:
    assert suggestions_in(answer([1]).body) == {"suggestions": [1], "unmapped": []}


def suggestions_in(content: bytes) -> dict[str, Any]:
    return find_object(chat_reply(read_body(content)).text, lambda found: isinstance(found.get("suggestions"), list))


@pytest.mark.parametrize(
    "data",
    [None, [], [{"embedding": [1.0]}], [{"embedding": [1.0]}, {"embedding": [1.0, 2.0]}], [1, 2],
     [{"embedding": [1.0]}, {"embedding": []}], [{"embedding": [1.0]}, {"embedding": ["x"]}],
     [{"embedding": [1.0]}, {"embedding": [float("nan")]}], [{"embedding": [1.0]}, {"embedding": [True]}]],
)  # fmt: skip
def test_vectors_of_another_form_are_not_read(data: Any) -> None:
    with pytest.raises(ModelAnswerUnreadable):
        embeddings({"data": data}, 2)


def test_vectors_come_in_the_order_of_the_texts() -> None:
    data = [{"index": 1, "embedding": [2, 0]}, {"index": 0, "embedding": [1, 0]}]
    assert embeddings({"data": data}, 2) == [[1.0, 0.0], [2.0, 0.0]]
    assert embeddings({"data": [{"embedding": [1]}, {"embedding": [2]}]}, 2) == [[1.0], [2.0]]


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [({"total_tokens": 321}, 321), ({"total_tokens": 0}, 0), ({"prompt_tokens": 20, "completion_tokens": 3}, 23),
     (None, None), ({}, None), ({"total_tokens": -5}, None), ({"total_tokens": "many"}, None), ("none", None),
     ({"total_tokens": True}, None), ({"total_tokens": 10**30}, None), ({"prompt_tokens": 20}, None)],
)  # fmt: skip
def test_tokens_that_make_no_sense_are_not_counted(usage: Any, tokens: int | None) -> None:
    assert tokens_used({"usage": usage}) == tokens
