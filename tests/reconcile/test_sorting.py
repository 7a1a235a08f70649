"""Sorting outside of memory, on runs of any size."""

from hypothesis import given
from hypothesis import strategies as st

from rowmill.reconcile.sorting import SortedRuns


@given(st.lists(st.integers(-20, 20)), st.integers(1, 7), st.integers(2, 4))
def test_entries_come_out_in_order_and_equal_ones_as_they_came(keys: list[int], run: int, fan: int) -> None:
    entries = [(key, place) for place, key in enumerate(keys)]
    runs = SortedRuns(run, fan)
    runs.add(entries)

    assert list(runs) == sorted(entries, key=lambda entry: entry[0])
