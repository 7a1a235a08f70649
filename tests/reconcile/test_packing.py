"""What a reconciliation keeps in its temporary files comes back as it was, or is refused."""

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest

from rowmill.errors import InventoryError
from rowmill.reconcile.sorting import packed, unpacked

VALUES: list[Any] = [
    None, True, 7, -(2**70), 0.1, "text\nwith lines", "\udcff", ["a", [1]], {"a": {"b": None}}, {"\x00": "mine"},
    datetime(2026, 1, 31, 12, 0, 0, 5, tzinfo=UTC), datetime(2026, 1, 31), date(2026, 1, 31), time(12, 30),
    timedelta(days=-1, microseconds=3), Decimal("1.10"), UUID(int=7), b"\x00\xff",
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    line = packed([(1, value, {"facts": value})])
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    [[number, back, facts]] = unpacked(line)
    assert (number, back, facts) == (1, value, {"facts": value})
    assert type(back) is type(value)


def test_any_mapping_comes_back_as_a_dict() -> None:
    assert unpacked(packed([MappingProxyType({"a": 1})])) == [{"a": 1}]


def test_what_would_have_to_be_code_is_refused_by_its_kind_alone() -> None:
    class Secret:
        def __repr__(self) -> str:
            return "hunter2"

    with pytest.raises(InventoryError, match="not Secret") as caught:
        packed([Secret()])
    assert "hunter2" not in str(caught.value)
