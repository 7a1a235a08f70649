"""A second look at suspects, directly before they are reported: the pass took its time, and things moved meanwhile."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rowmill.model.errors import code_of, safe_text
from rowmill.reconcile.inventory import Inventory
from rowmill.reconcile.item import Facts
from rowmill.reconcile.merge import Suspect, UnreadableInventory
from rowmill.reconcile.rules import Rule, RuleVerdict, RunClock
from rowmill.store.port import Store


@dataclass(slots=True)
class Rechecked:
    """What became of a page of suspects."""

    standing: list[Suspect] = field(default_factory=list)
    in_flight: list[Suspect] = field(default_factory=list)
    cleared: int = 0
    unseen: int = 0
    """An inventory did not answer the second look: not findings."""
    spoiled: list[UnreadableInventory] = field(default_factory=list)


async def look_again(
    store: Store, inventories: Mapping[str, Inventory], rules: Sequence[Rule], clock: RunClock, suspects: list[Suspect]
) -> Rechecked:
    """Ask every inventory that can be asked for single things, and judge again by what it says. The others are taken
    as the pass saw them."""
    looked = Rechecked()
    seen = await _seen(store, inventories, rules, suspects, looked)
    silent = {one.inventory for one in looked.spoiled}
    for suspect in suspects:
        rule = rules[suspect.rule]
        if silent.intersection(rule.involved):
            looked.unseen += 1
            continue
        here = dict(suspect.here)
        for name in rule.involved:
            if name in seen:
                here.pop(name, None)
                if suspect.key in seen[name]:
                    here[name] = seen[name][suspect.key]
        again = Suspect(suspect.rule, suspect.key, here)
        match rule.judge(suspect.key, here, clock):
            case RuleVerdict.FOUND:
                looked.standing.append(again)
            case RuleVerdict.IN_FLIGHT:
                looked.in_flight.append(again)
            case RuleVerdict.FINE:
                looked.cleared += 1
    return looked


async def _seen(
    store: Store,
    inventories: Mapping[str, Inventory],
    rules: Sequence[Rule],
    suspects: list[Suspect],
    looked: Rechecked,
) -> dict[str, dict[Any, Facts]]:
    seen: dict[str, dict[Any, Facts]] = {}
    for name, inventory in inventories.items():
        keys = [suspect.key for suspect in suspects if name in rules[suspect.rule].involved]
        if not keys or not inventory.can_look:
            continue
        try:
            seen[name] = await inventory.look(store, list(dict.fromkeys(keys)))
        except Exception as error:
            looked.spoiled.append(UnreadableInventory(name, code_of(error), None, safe_text(str(error))))
    return seen
