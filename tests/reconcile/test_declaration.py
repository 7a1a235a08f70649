"""What is wrong with a declaration is said at once, all of it."""

from collections.abc import Iterator
from typing import Any

import pytest

import rowmill as rm
from rowmill import reconcile

HERE, THERE = reconcile.inventory([1]), reconcile.inventory([1], at=None)
RULE = reconcile.missing("lost", present="here", absent="there")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"inventories": {}}, "it has no inventories"),
        ({"inventories": {"here": HERE, "there": [1]}}, "there is no inventory but list: wrap it"),
        ({"rules": []}, "it has no rules"),
        ({"rules": [RULE, RULE]}, "two rules are called lost"),
        ({"rules": [reconcile.missing("lost", present="here", absent="nowhere")]}, "rule lost names inventory nowhere"),
        ({"rules": [reconcile.missing("lost", present="here", absent="here")]}, "to have a key and to lack it"),
        ({"rules": [reconcile.missing("lost", present="here", absent=[])]}, "has to say where a thing is present"),
        ({"rules": [reconcile.stale("old", present="there", older=60)]}, "name the time of there with at="),
        (
            {"rules": [reconcile.missing("lost", present="there", absent="here")], "grace": 60},
            "can't tell what is in flight",
        ),
        ({"correct": {"other": None}}, "correct names other, which is no rule"),
        ({"cap": -1}, "cap can't be negative"),
        ({"grace": -1}, "grace can't be negative"),
        ({"lease": 0}, "lease must be more than 0"),
    ],
)
def test_a_wrong_declaration_is_refused(changes: dict[str, Any], said: str) -> None:
    given = {"inventories": {"here": HERE, "there": THERE}, "rules": [RULE]} | changes
    with pytest.raises(rm.errors.DeclarationError, match=f"reconciliation things cannot be declared:\n.*{said}"):
        rm.Mill("sqlite:///never-opened.db").reconciliation("things", **given)


def test_a_name_is_given_once() -> None:
    mill = rm.Mill("sqlite:///never-opened.db")
    mill.reconciliation("things", inventories={"here": HERE, "there": THERE}, rules=[RULE])
    with pytest.raises(rm.errors.DeclarationError, match="of that name already"):
        mill.reconciliation("things", inventories={"here": HERE, "there": THERE}, rules=[RULE])


def test_a_source_that_can_be_read_only_once_is_refused() -> None:
    def keys() -> Iterator[int]:
        yield 1

    with pytest.raises(rm.errors.DeclarationError, match="pass the function that makes it"):
        reconcile.inventory(keys())
    assert not reconcile.inventory(keys).can_look
