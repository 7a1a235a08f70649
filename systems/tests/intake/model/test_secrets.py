"""Neither the key nor a word of the document gets into a log or an exception, whatever goes wrong."""

import logging
import traceback
from collections.abc import Iterator

import pytest
from pydantic import SecretStr

import rowmill as rm
from rowmill_systems.intake.fields.model import ModelSettings
from systems.tests.intake.model.conftest import SECRET, Maker
from systems.tests.intake.model.paper import CATALOGUE, document, found
from systems.tests.model_server import ModelServer, Reply, answer, saying

WORD = "plantedword"
PAPER = document([f"Date: 31 March 2026 {WORD}"])
ECHO = f"you said {WORD} with {SECRET}"
REPLIES = {
    "answer": answer([found("seller", WORD, 1, WORD), found("seller", WORD, 1, f"no {WORD}")], [{"label": WORD}]),
    "unknown key": answer([{WORD: WORD, "field": WORD}], **{WORD: WORD}),
    "prose": saying(ECHO),
    "not json": Reply(body=ECHO.encode()),
    "half": saying('{"suggestions": "' + ECHO),
    "refusal": saying(None, refusal=ECHO),
    "400": Reply(400, body=ECHO.encode()),
    "401": Reply(401, body=ECHO.encode()),
    "429": Reply(429, {"Retry-After": ECHO}, ECHO.encode()),
    "500": Reply(500, body=ECHO.encode()),
    "garbage": Reply(raw=f"{ECHO}\r\n\r\n".encode()),
    "bad header": Reply(raw=f"HTTP/1.1 200 OK\r\n{ECHO}\r\n\r\n".encode()),
    "bad length": Reply(raw=f"HTTP/1.1 200 OK\r\nContent-Length: {ECHO}\r\n\r\n".encode()),
    "bad encoding": Reply(headers={"Content-Encoding": "gzip"}, body=ECHO.encode()),
    "cut": Reply(body=ECHO.encode() * 100, cut_at=500),
    "hang": Reply(hangs=True),
}


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """With its causes, and with what they were raised in the course of."""
    if error is not None:
        yield error
        yield from chain(error.__cause__)
        yield from chain(error.__context__)


@pytest.mark.parametrize("reply", list(REPLIES.values()), ids=list(REPLIES))
async def test_neither_key_nor_content_is_shown(
    server: ModelServer, mapper: Maker, caplog: pytest.LogCaptureFixture, reply: Reply
) -> None:
    server.reply = lambda asked, number: reply
    model = mapper(timeout=0.5)
    shown = [repr(model), repr(model.settings), str(model.settings)]
    with caplog.at_level(logging.DEBUG):
        try:
            await model.map(PAPER, doc_type=None, catalogue=CATALOGUE)
        except rm.errors.WorkError as error:
            for each in chain(error):
                shown += [str(each), repr(each), *map(repr, each.args)]
            shown += traceback.format_exception(error)
    ours = [record for record in caplog.records if record.name.startswith("rowmill")]
    shown += [f"{record.getMessage()} {record.__dict__}" for record in ours]
    shown += [record.getMessage() for record in caplog.records if record.levelno >= logging.INFO]
    told = "\n".join(shown)
    assert server.asked, "it was asked"
    assert WORD not in told
    assert SECRET not in told


@pytest.mark.parametrize(
    ("options", "fix"),
    [
        ({"api_key": SecretStr(f"{SECRET}\n")}, "line ends"),
        ({"api_key": SecretStr(f"{SECRET}ä")}, "line ends"),
        ({"api_key": SecretStr("")}, "line ends"),
        ({"base_url": f"https://user:{SECRET}@host/v1"}, "https://host/v1"),
        ({"base_url": f"https://host/v1?key={SECRET}"}, "https://host/v1"),
        ({"base_url": "host/v1"}, "https://host/v1"),
        ({"base_url": "https://[host/v1"}, "https://host/v1"),
        ({"model": " "}, "Name one"),
        ({"timeout": 0.0}, "above 0"),
        ({"max_calls": 0}, "above 0"),
    ],
)
def test_wrong_settings_are_refused_with_their_fix_and_not_shown(options: dict[str, object], fix: str) -> None:
    given: dict[str, object] = {"base_url": "https://host/v1", "model": "m", **options}
    with pytest.raises(rm.errors.DeclarationError, match=fix) as raised:
        ModelSettings(**given)  # type: ignore[arg-type]
    assert SECRET not in str(raised.value)
