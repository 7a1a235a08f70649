"""The mentions with known answers are what their users take them for."""

import hashlib
import json
from collections import Counter
from pathlib import Path

from rowmill_systems.entities.kb.base import open_knowledge_base
from rowmill_systems.entities.linking.types import type_of

KNOWN = Path(__file__).parents[1] / "quality" / "known.jsonl"
LINES = [json.loads(line) for line in KNOWN.read_text("utf-8").splitlines()]


def test_every_answer_is_in_the_slice() -> None:
    base = open_knowledge_base()
    assert [line for line in LINES if line["answer"] is not None and base.get(line["answer"]) is None] == []
    base.close()


def test_the_halves_go_by_what_is_asked_alone() -> None:
    for line in LINES:
        asked = json.dumps([line["name"], line["type"], line["context"]], ensure_ascii=False)
        assert line["held_out"] == (hashlib.sha256(asked.encode()).digest()[0] % 2 == 1), line["name"]
    assert 0.45 < sum(line["held_out"] for line in LINES) / len(LINES) < 0.55


def test_a_good_part_has_no_answer_and_nothing_is_asked_twice() -> None:
    assert len(LINES) >= 400
    assert 0.25 < sum(line["answer"] is None for line in LINES) / len(LINES) < 0.35
    asked = Counter((line["name"], line["type"], line["context"]) for line in LINES)
    assert [each for each, count in asked.items() if count > 1] == []


def test_types_are_words_that_are_understood() -> None:
    assert [line["type"] for line in LINES if line["type"] is not None and type_of(line["type"]) is None] == []
