"""Which errors are a row's own, and how long a refused row is left in peace."""

from collections.abc import Sequence

import pytest

from rowmill.store.keys import Key
from rowmill.store.refused_rows import REST, RefusedRows, RowRefused, is_of_a_row


@pytest.mark.parametrize("state", ["22003", "23502", "23514", "23505", "44000", "P0001", "RM001"])
def test_errors_of_a_row(state: str) -> None:
    assert is_of_a_row(state)


@pytest.mark.parametrize("state", ["08006", "40001", "40P01", "42703", "42501", "53300", "57014", "XX000", None])
def test_errors_that_say_nothing_of_a_row(state: str | None) -> None:
    assert not is_of_a_row(state)


async def test_a_refused_row_is_tried_again_when_it_has_rested() -> None:
    mended, refused, records = False, RefusedRows(), list[str]()

    async def pick(limit: int) -> list[Key]:
        return [] if refused.parts else [(1,)]

    async def take(keys: Sequence[Key]) -> list[str]:
        if not mended:
            raise RowRefused("a trigger")
        return ["taken"]

    await refused.step_over(1, pick, take, 1000.0, records)
    assert (records, refused.parts, refused.take_news()) == ([], [1], [((1,), "a trigger")])
    assert not refused.due(1000.0 + REST - 1)
    assert refused.due(1000.0 + REST)
    assert await refused.try_again(1, take, 1000.0 + REST) == []
    assert not refused.due(1000.0 + REST * 2 - 1)
    mended = True
    assert await refused.try_again(1, take, 1000.0 + REST * 2) == ["taken"]
    assert (len(refused), refused.take_news()) == (0, [])
