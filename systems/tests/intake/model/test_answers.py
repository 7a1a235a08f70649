"""What servers say, as far as it can be read."""

from typing import Any

import httpx2
import pytest

from rowmill_systems.intake.fields.model.answers import Unreadable, envelope, object_in, said, tokens_used
from rowmill_systems.parts.services.responses import retry_after
from tests.support.chat import answer, saying

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
    with pytest.raises(Unreadable) as raised:
        object_in(said(envelope(content)).text)
    assert (raised.value.args, raised.value.__cause__, raised.value.__context__) == ((), None, None)


def test_an_answer_is_read() -> None:
    assert object_in(said(envelope(answer([1]).body)).text) == {"suggestions": [1], "unmapped": []}


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [({"total_tokens": 321}, 321), ({"total_tokens": 0}, 0), ({"prompt_tokens": 20, "completion_tokens": 3}, 23),
     (None, None), ({}, None), ({"total_tokens": -5}, None), ({"total_tokens": "many"}, None), ("none", None),
     ({"total_tokens": True}, None), ({"total_tokens": 10**30}, None), ({"prompt_tokens": 20}, None)],
)  # fmt: skip
def test_tokens_that_make_no_sense_are_not_counted(usage: Any, tokens: int | None) -> None:
    assert tokens_used({"usage": usage}) == tokens


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [({"Retry-After": "7"}, 7.0), ({"Retry-After": "0.2"}, 1.0), ({}, 60.0), ({"Retry-After": "soon"}, 60.0),
     ({"Retry-After": "nan"}, 60.0), ({"Retry-After": "inf"}, 3600.0), ({"Retry-After": "-5"}, 1.0),
     ({"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT", "Date": "Fri, 31 Dec 1999 23:59:29 GMT"}, 30.0),
     ({"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"}, 1.0),
     ({"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT", "Date": "Fri, 31 Dec 1999 23:59:29 -0000"}, 60.0)],
)  # fmt: skip
def test_how_long_to_wait(headers: dict[str, str], seconds: float) -> None:
    assert retry_after(httpx2.Headers(headers)) == seconds
