"""Three worker processes, one of them killed again and again: every event is handled, in order per aggregate. The full
size is `make bench-outbox`."""

import asyncio
from pathlib import Path
from typing import Literal

import pytest

from bench.outbox import judged, show

EVENTS, AGGREGATES = 900, 60


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["block", "skip"])
async def test_every_event_is_handled_in_order_while_workers_are_killed(
    database_url: str, tmp_path: Path, policy: Literal["block", "skip"]
) -> None:
    """K2: a crash is an attempt; nothing is lost, and nothing overtakes."""
    async with asyncio.timeout(110):
        found = await show(
            database_url, tmp_path, events=EVENTS, aggregates=AGGREGATES, policy=policy, lease=1.0, gates=(3, 8),
        )  # fmt: skip
    assert found.problems == []
    assert found.kills == 2
    assert found.again >= 2, "what the dead ones held"
    assert found.dead == 1
    held_back = 9 if policy == "block" else 0
    assert (found.held_back, found.handled) == (held_back, EVENTS - held_back)


def journal(folder: Path, *lines: str) -> Path:
    path = folder / "journal"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


GOOD = ["begin 1 0", "begin 1 0", "end 1 0", "begin 1 1", "end 1 1", "begin 0 0", "end 0 0", "begin 0 1", "end 0 1"]


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        (GOOD, None),
        ([*GOOD[:5], *GOOD[7:]], "event 1 of 0 began when -1 was the last to end"),
        (GOOD[:-2], "aggregate 0 ended at 0, not at 1"),
        (["begin 1 0", "begin 1 1", "end 1 0", "end 1 1", *GOOD[5:]], "event 1 of 1 began when -1 was the last to end"),
        ([*GOOD, "begin 0 0"], "event 0 of 0 began when 1 was the last to end"),
    ],
)
def test_the_judge_sees_what_is_out_of_order(tmp_path: Path, changed: list[str], problem: str | None) -> None:
    found = judged(journal(tmp_path, *changed), 4, 2, "block").problems
    assert (problem in found) if problem else found == []


def test_the_judge_sees_what_was_handled_behind_a_dead_one(tmp_path: Path) -> None:
    lines = [line for n in range(5) for line in (f"begin 0 {n}", f"end 0 {n}")]
    lines += ["begin 0 5", "begin 0 6", "end 0 6"]
    path = journal(tmp_path, *lines)
    assert "event 6 of 0 was handled behind a dead one" in judged(path, 7, 1, "block").problems
    assert judged(path, 7, 1, "skip").problems == []
