"""The merge of inventories: as a comparison of sets would have it, and never more than was observed."""

import asyncio
import string
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rowmill as rm
from rowmill import reconcile
from rowmill.reconcile.declaration import declared
from rowmill.reconcile.merge import Observed, Pass, Suspect
from rowmill.reconcile.rules import Rule

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
NO_STORE: Any = None
"""Inventories out of lists need none."""

KEYS = st.one_of(
    st.frozensets(st.integers(-50, 50)).map(list),
    st.frozensets(st.text(alphabet=string.printable + "äß\u20ac\U0001f600", max_size=4)).map(list),
    st.frozensets(st.uuids()).map(list),
)


async def compare(
    inventories: dict[str, Any], rules: Sequence[Rule], **policies: Any
) -> tuple[list[Suspect], Observed]:
    chosen = declared("test", inventories, rules, **policies)
    found: list[Suspect] = []
    observed = await Pass(chosen.inventories, chosen.rules, chosen.clock(NOW), found.append).run(NO_STORE)
    return found, observed


def keys_of(found: Iterable[Suspect], rules: Sequence[Rule]) -> set[tuple[str, Any]]:
    return {(rules[one.rule].kind, one.key) for one in found}


def failing(keys: Sequence[Any], error: Exception) -> Any:
    """An inventory that gives some keys and then fails."""

    async def source() -> AsyncIterator[Any]:
        for key in keys:
            yield key
        raise error

    return reconcile.inventory(source)


@st.composite
def compositions(draw: st.DrawFn) -> tuple[dict[str, list[Any]], list[Rule]]:
    """Two to four inventories of overlapping keys, and rules over them."""
    pool = draw(KEYS)
    names = ["a", "b", "c", "d"][: draw(st.integers(2, 4))]
    some = st.lists(st.sampled_from(pool), unique=True) if pool else st.just([])
    listed: dict[str, list[Any]] = {name: sorted(draw(some)) for name in names}
    rules: list[Rule] = []
    for number in range(draw(st.integers(1, 4))):
        present = draw(st.lists(st.sampled_from(names), min_size=1, max_size=len(names) - 1, unique=True))
        others = [name for name in names if name not in present]
        absent = draw(st.lists(st.sampled_from(others), min_size=1, unique=True))
        rules.append(reconcile.missing(f"rule_{number}", present=present, absent=absent))
    return listed, rules


def expected(listed: dict[str, list[Any]], rules: Sequence[Rule]) -> set[tuple[str, Any]]:
    sets = {name: set(keys) for name, keys in listed.items()}
    return {
        (rule.kind, key)
        for rule in rules
        for key in set.intersection(*(sets[name] for name in rule.present))
        - set.union(*(sets[name] for name in rule.absent))
    }


@settings(deadline=None, max_examples=300)
@given(compositions())
async def test_the_merge_finds_what_a_comparison_of_sets_finds(given: tuple[dict[str, list[Any]], list[Rule]]) -> None:
    listed, rules = given
    found, observed = await compare({name: reconcile.inventory(keys) for name, keys in listed.items()}, rules)

    assert keys_of(found, rules) == expected(listed, rules)
    assert len(found) == len(keys_of(found, rules)), "each once"
    assert [one.key for one in found] == sorted(one.key for one in found)
    assert observed.counts == {name: len(keys) for name, keys in listed.items()}


@settings(deadline=None, max_examples=300)
@given(compositions(), st.data())
async def test_an_inventory_that_breaks_anywhere_makes_no_false_finding(
    given: tuple[dict[str, list[Any]], list[Rule]], data: st.DataObject
) -> None:
    listed, rules = given
    broken = data.draw(st.sampled_from(sorted(listed)))
    upto = data.draw(st.integers(0, len(listed[broken])))
    inventories: dict[str, Any] = {name: reconcile.inventory(keys) for name, keys in listed.items()}
    inventories[broken] = failing(listed[broken][:upto], rm.errors.ProviderDown("away", code="store_down"))

    found, observed = await compare(inventories, rules)

    truth = expected(listed, rules)
    assert keys_of(found, rules) <= truth
    unaffected = {rule.kind for rule in rules if broken not in rule.involved}
    last = listed[broken][upto - 1] if upto else None
    certain = {(kind, key) for kind, key in truth if kind in unaffected or (last is not None and key <= last)}
    assert certain <= keys_of(found, rules), "what was observed before the break stands"
    assert observed.broken <= {broken}
    if unaffected or len(listed) == 2:
        assert [(one.inventory, one.code) for one in observed.unreadable] == [(broken, "store_down")]


@settings(deadline=None)
@given(KEYS.flatmap(lambda keys: st.tuples(st.just(sorted(keys)), st.permutations(keys))))
async def test_a_source_without_order_is_sorted(given: tuple[list[Any], list[Any]]) -> None:
    ordered, shuffled = given
    rules = [reconcile.missing("more", present="shuffled", absent="ordered")]
    inventories = {"ordered": reconcile.inventory(ordered), "shuffled": reconcile.inventory(shuffled, sort=True)}
    found, observed = await compare(inventories, rules)

    assert found == []
    assert observed.counts["shuffled"] == len(ordered)


ONE_RULE = [reconcile.missing("lost", present="a", absent="b")]


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (["a", "c", "b"], "b is not in ascending order: c at position 2, then b at position 3"),
        (["a", "b", "b"], "b gives key b twice, at positions 2 and 3"),
        (["a", 7], "b gives keys of two types: str at position 1, int at position 2"),
        ([1.5], "b, position 1: a key is an int, a str or a UUID, not float"),
        ([3], "no common order: a has str, b has int"),
    ],
)
async def test_keys_that_do_not_ascend_are_an_error_that_names_their_places(keys: list[Any], said: str) -> None:
    with pytest.raises(rm.errors.InventoryError, match=said):
        await compare({"a": reconcile.inventory(["x", "y"]), "b": reconcile.inventory(keys)}, ONE_RULE)


async def test_a_key_twice_is_noticed_after_sorting_too() -> None:
    inventories = {"a": reconcile.inventory(["x"]), "b": reconcile.inventory(["c", "a", "c"], sort=True)}
    with pytest.raises(rm.errors.InventoryError, match="key c twice"):
        await compare(inventories, ONE_RULE)


async def test_a_sorted_source_that_breaks_has_shown_nothing() -> None:
    async def source() -> AsyncIterator[str]:
        yield "z"
        raise OSError("gone")

    inventories = {"a": reconcile.inventory(["x"]), "b": reconcile.inventory(source, sort=True)}
    found, observed = await compare(inventories, ONE_RULE)

    assert found == []
    assert [(one.inventory, one.code, one.upto) for one in observed.unreadable] == [("b", "OSError", None)]


async def test_several_things_of_one_key_count_as_one_and_are_as_young_as_the_youngest() -> None:
    old, young = NOW - timedelta(hours=2), NOW - timedelta(seconds=5)
    points = [("doc", {"at": old}), ("doc", {"at": young}), ("doc", {"at": old}), ("old", {"at": old})]
    inventories = {"a": reconcile.inventory(points, many=True), "b": reconcile.inventory([])}
    found, observed = await compare(inventories, ONE_RULE, grace=60)

    assert [(one.key, one.in_flight) for one in found] == [("doc", True), ("old", False)]
    assert observed.counts["a"] == 4


async def test_an_inventory_without_its_end_marker_was_observed_up_to_its_last_key() -> None:
    inventories = {"a": reconcile.inventory(["a", "c", "x"]), "b": reconcile.inventory(["b", "d"], end_marker=True)}
    found, observed = await compare(inventories, ONE_RULE)

    assert [one.key for one in found] == ["a", "c"]
    assert [(one.code, one.upto) for one in observed.unreadable] == [("ended_early", "d")]


async def test_the_end_marker_is_no_key() -> None:
    inventories = {
        "a": reconcile.inventory(["a"]),
        "b": reconcile.inventory(["a", "b", reconcile.END], end_marker=True),
    }
    found, observed = await compare(inventories, ONE_RULE)

    assert (found, observed.unreadable, observed.counts["b"]) == ([], [], 2)


async def test_an_inventory_that_gives_too_few_may_have_left_out_any_key() -> None:
    async def how_many() -> int:
        return 3

    inventories = {"a": reconcile.inventory(["a", "c"]), "b": reconcile.inventory(["b", "d"], expects=how_many)}
    _, observed = await compare(inventories, ONE_RULE)

    assert observed.inconclusive == {"b"}
    assert [(one.code, one.upto) for one in observed.unreadable] == [("too_few", None)]


async def test_a_blocking_source_is_read_in_a_thread_and_its_error_is_its_own() -> None:
    def source() -> Iterable[int]:
        yield from range(5000)
        raise OSError("gone")

    inventories = {"a": reconcile.inventory(range(6000)), "b": reconcile.inventory(source)}
    found, observed = await compare(inventories, ONE_RULE)

    assert found == []
    assert [(one.code, one.upto) for one in observed.unreadable] == [("OSError", "4999")]


async def test_a_source_that_does_not_answer_is_given_up() -> None:
    async def source() -> AsyncIterator[str]:
        for number in range(2000):
            yield f"a{number:04}"
        await asyncio.Event().wait()

    inventories = {"a": reconcile.inventory(["a0000", "a1", "b"]), "b": reconcile.inventory(source, timeout=0.5)}
    found, observed = await compare(inventories, ONE_RULE)

    assert [one.key for one in found] == ["a1"]
    assert [(one.code, one.upto) for one in observed.unreadable] == [("TimeoutError", "a1999")]


async def test_times_are_read_in_every_usual_form() -> None:
    young, old = NOW - timedelta(seconds=1), NOW - timedelta(days=1)
    forms = [young, young.replace(tzinfo=None), young.isoformat(), young.timestamp(), old, None]
    things = [(number, {"at": form}) for number, form in enumerate(forms)]
    inventories = {"a": reconcile.inventory(things), "b": reconcile.inventory([])}
    found, _ = await compare(inventories, ONE_RULE, grace=60)

    assert [one.in_flight for one in found] == [True, True, True, True, False, False]


async def test_what_is_young_in_any_inventory_is_in_flight() -> None:
    old, young = {"at": NOW - timedelta(days=1)}, {"at": NOW}
    inventories = {
        "a": reconcile.inventory([(1, old), (2, old)]),
        "b": reconcile.inventory([]),
        "c": reconcile.inventory([(1, young), (2, old)]),
    }
    found, _ = await compare(inventories, ONE_RULE, grace=60)

    assert [(one.key, one.in_flight) for one in found] == [(1, True), (2, False)]


async def test_a_stale_thing_is_one_whose_time_is_known_and_old() -> None:
    facts = [("PROCESSING", 31), ("PROCESSING", 29), ("READY", 90), ("PROCESSING", None)]
    things = [
        (number, {"status": status, "at": None if age is None else NOW - timedelta(minutes=age)})
        for number, (status, age) in enumerate(facts)
    ]
    rule = reconcile.stale("stuck", present="a", when=lambda one: one["status"] == "PROCESSING", older=rm.minutes(30))
    found, _ = await compare({"a": reconcile.inventory(things)}, [rule])

    assert [one.key for one in found] == [0]


async def test_a_condition_that_fails_is_named_with_its_key() -> None:
    rule = reconcile.missing("lost", present="a", absent="b", when=lambda one: one["status"] == "READY")
    inventories = {"a": reconcile.inventory([UUID(int=1)]), "b": reconcile.inventory([])}
    with pytest.raises(rm.RowmillError, match="rule lost fails on key 00000000-0000-0000-0000-000000000001: KeyError"):
        await compare(inventories, [rule])
