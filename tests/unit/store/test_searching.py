"""A search for free rows costs what it finds."""

import pytest

from rowmill.model.states import Step
from rowmill.store.order_per_key import LEAST, SHARE, Search, Start
from rowmill.store.queue_sql import QueueSql


def quick(sql: QueueSql, step: Step, limit: str, start: Start) -> str:
    raise AssertionError("nobody asks for the statement")


def walk(sql: QueueSql, step: Step, limit: str, start: Start) -> str:
    raise AssertionError("nobody asks for the statement")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Queue:
    """So many rows are found by each way; a walk takes a second."""

    def __init__(self, *, quick: int, walk: int = 0) -> None:
        self.clock = Clock()
        self.search = Search(lambda found: str(found[-1]), self.clock)
        self.begun: list[tuple[str, ...]] = []
        self.free = {"quick": quick, "walk": walk}
        self.asked: list[tuple[str, int]] = []

    def claim(self, limit: int) -> int:
        """How many rows it takes. They are there again the next time."""
        self.asked, left, taken = [], dict(self.free), 0
        for ask in self.search.asks([quick, walk], limit):
            name = "quick" if ask.find is quick else "walk"
            self.asked.append((name, ask.most))
            ask.found = range(min(ask.most, left[name]))
            left[name] -= len(ask.found)
            taken += len(ask.found)
            if name == "walk":
                self.begun.append(ask.behind)
                self.clock.now += 1.0
        return taken


def test_it_asks_for_as_much_as_it_may_find() -> None:
    queue = Queue(quick=40)
    assert queue.claim(2000) == 40
    assert queue.asked[0] == ("quick", LEAST)
    queue = Queue(quick=700)
    assert queue.claim(600) == 600
    assert queue.asked == [("quick", LEAST), ("quick", LEAST * 2), ("quick", LEAST * 4), ("quick", 250)]
    assert queue.claim(600) == 600
    assert queue.asked == [("quick", 500), ("quick", 100)], "twice what it found the last time"


def test_a_claim_that_is_filled_walks_nowhere() -> None:
    queue = Queue(quick=10, walk=10)
    assert queue.claim(10) == 10
    assert queue.asked == [("quick", 10)]


def test_a_walk_goes_on_where_the_last_one_ended_unless_that_was_the_end() -> None:
    queue = Queue(quick=0, walk=30)
    queue.claim(10)
    queue.claim(20)
    assert queue.begun == [(), ("9",)]
    queue.claim(40)
    queue.claim(10)
    assert queue.begun[2:] == [("19",), (), ()], "to the end, around, and from the start"


def test_what_is_free_is_found_though_a_walk_is_dear() -> None:
    queue = Queue(quick=0, walk=3)
    for _ in range(3):
        assert queue.claim(100) == 3
        assert queue.asked[-1][0] == "walk"


def test_a_walk_that_finds_little_is_not_repeated_at_once() -> None:
    queue = Queue(quick=5, walk=1)
    assert queue.claim(100) == 6
    assert queue.claim(100) == 5
    assert queue.asked == [("quick", LEAST)]
    queue.clock.now += 1.0 / SHARE
    assert queue.claim(100) == 6


@pytest.mark.parametrize(("wanted", "there"), [(1000, LEAST), (30, 29)])
def test_a_walk_that_fills_the_hands_is(wanted: int, there: int) -> None:
    queue = Queue(quick=1, walk=there)
    for _ in range(3):
        assert queue.claim(wanted) == there + 1
