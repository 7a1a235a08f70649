"""Halving finds every bad item, tries good ones together, and keeps their order."""

from collections.abc import Sequence

import pytest

from rowmill.store.halving import Halving


def tried(items: Sequence[int], bad: set[int]) -> tuple[list[int], list[int], int]:
    """What was taken, what was refused, and in how many tries."""
    taken: list[int] = []
    refused: list[int] = []
    tries = 0
    halving = Halving(items)
    for batch in halving:
        tries += 1
        if not bad & set(batch):
            taken += batch
        elif not halving.split(batch):
            refused += batch
    return taken, refused, tries


@pytest.mark.parametrize("bad", [set(), {0}, {99}, {0, 99}, {17, 18, 63}, set(range(100))])
def test_every_bad_item_is_found_alone_and_the_rest_is_taken_in_order(bad: set[int]) -> None:
    taken, refused, _ = tried(range(100), bad)
    assert taken == [number for number in range(100) if number not in bad]
    assert refused == sorted(bad)


def test_one_bad_item_among_many_costs_few_tries() -> None:
    assert tried(range(1024), set())[2] == 1
    assert tried(range(1024), {700})[2] == 21


def test_nothing_is_tried_for_no_items() -> None:
    assert tried([], set()) == ([], [], 0)


def test_a_batch_can_be_tried_once_more_before_the_others() -> None:
    halving = Halving([1, 2, 3, 4])
    batches = iter(halving)
    assert halving.split(next(batches))
    first = next(batches)
    halving.retry(first)
    assert [list(first), list(next(batches)), list(next(batches))] == [[1, 2], [1, 2], [3, 4]]
