"""Long documents are asked about in several calls."""

from typing import Any

import pytest

import rowmill as rm
from rowmill_systems.intake.fields.catalogue import Catalogue, Field
from rowmill_systems.intake.fields.model.prompting import messages, size, split
from rowmill_systems.parts.models import estimate_tokens
from systems.tests.intake.model.conftest import Maker
from systems.tests.intake.model.paper import document, found
from systems.tests.model_server import Asked, ModelServer, Reply, answer

PLAIN = Catalogue.of([Field("word", "Word", many=True), Field("best", "Best")])


def test_pages_stay_whole_where_they_fit() -> None:
    paper = document(*([f"page {number} " + "x" * 280] for number in range(1, 8)))
    parts = list(split(paper, 3 * size(paper.pages[0].text) + 1))
    assert [[number for number, _ in part] for part in parts] == [[1, 2, 3], [4, 5, 6], [7]]
    assert [text for part in parts for _, text in part] == [page.text for page in paper.pages]


@pytest.mark.parametrize("sign", ["x", "ä", "語", "🙂", "\x00", '"'])
def test_a_page_that_is_too_long_is_broken_and_loses_nothing(sign: str) -> None:
    paper = document(["short"], [sign * 40, sign * 3000, "", sign * 40] * 5, ["short"])
    parts = list(split(paper, 300))
    assert all(sum(size(text) for _, text in part) <= 300 for part in parts)
    told = "".join(text for part in parts for number, text in part if number == 2)
    assert told.replace("\n", "") == paper.pages[1].text.replace("\n", "")
    assert [part[0][0] for part in parts] == sorted(part[0][0] for part in parts)


def test_an_estimate_is_rather_too_high() -> None:
    assert estimate_tokens("a plain sentence of eight words, more or less") >= 9
    assert estimate_tokens("合計金額") >= 4


async def test_the_answers_of_all_calls_are_put_together(server: ModelServer, mapper: Maker) -> None:
    paper = document(*([f"word{number} shared " + "x" * 900] for number in range(1, 5)))

    def reply(asked: Asked, number: int) -> Reply:
        pages = [page["page"] for page in asked.material["pages"]]
        items = [found("word", f"word{page}", page, f"word{page}") for page in pages]
        items += [found("word", "shared", page, "shared", page / 10) for page in pages]
        items += [found("best", f"word{page}", page, f"word{page}", page / 10) for page in pages]
        return answer(items)

    server.reply = reply
    mapped = await mapper(max_input_tokens=overhead() + 700).map(paper, doc_type=None, catalogue=PLAIN)
    assert [[page["page"] for page in asked.material["pages"]] for asked in server.asked] == [[1, 2], [3, 4]]
    values = [(one.field, one.value, one.evidence.page) for one in mapped.suggestions]
    assert sorted(values) == [
        ("best", "word4", 4), ("word", "shared", 4), *(("word", f"word{page}", page) for page in range(1, 5)),
    ]  # fmt: skip


async def test_later_calls_of_a_document_wait_for_room_instead_of_beginning_anew(
    server: ModelServer, mapper: Maker, mill: rm.Mill
) -> None:
    slow = mill.limit("slow", rate=rm.limits.Rate(1, per=0.2))
    paper = document(*(["x" * 900] for _ in range(3)))
    await mapper(limit=slow, wait=20.0, max_input_tokens=overhead() + 400).map(paper, doc_type=None, catalogue=PLAIN)
    assert [page["page"] for asked in server.asked for page in asked.material["pages"]] == [1, 2, 3]


async def test_a_document_without_end_is_read_only_so_far(
    server: ModelServer, mapper: Maker, caplog: pytest.LogCaptureFixture
) -> None:
    paper = document(*(["x" * 900] for _ in range(9)))
    await mapper(max_input_tokens=overhead() + 400, max_calls=3).map(paper, doc_type=None, catalogue=PLAIN)
    told: list[Any] = [record.__dict__["rowmill"] for record in caplog.records if record.name == "rowmill"]
    assert (len(server.asked), told[0]["calls"], told[0]["calls_left_out"]) == (3, 3, 6)


def overhead() -> int:
    return sum(estimate_tokens(message["content"]) for message in messages([], PLAIN.fields, None))
