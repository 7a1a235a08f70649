"""The fates of the demo's rows."""

from collections import Counter

import pytest

from rowmill.demo.fate import FEWEST_SLOW, FateKind, Fates


def test_a_fate_depends_on_the_seed_and_the_row_alone() -> None:
    one, same, other = Fates(2000, 1), Fates(2000, 1), Fates(2000, 2)

    assert [one.of(n) for n in range(1, 2001)] == [same.of(n) for n in reversed(range(1, 2001))][::-1]
    assert [one.of(n) for n in range(1, 2001)] != [other.of(n) for n in range(1, 2001)]


@pytest.mark.parametrize("rows", [200, 600, 20_000])
def test_every_kind_of_trouble_occurs(rows: int) -> None:
    fates = Fates(rows, 1)
    found = [fates.of(n) for n in range(1, rows + 1)]
    kinds = Counter(fate.kind for fate in found)

    assert set(kinds) == set(FateKind)
    assert kinds[FateKind.POISON] == len(fates.poison) >= 2
    assert kinds[FateKind.SLOW] >= FEWEST_SLOW / 2
    assert any(fate.own_transaction for fate in found)
    assert {fate.failures for fate in found if fate.kind is FateKind.FLAKY} == {1, 2}
    assert len(fates.expected_dead()) == kinds[FateKind.POISON] + kinds[FateKind.GONE]
