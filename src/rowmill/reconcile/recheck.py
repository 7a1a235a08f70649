"""A second look at suspects just before they are reported: items may have changed since the pass read them."""

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
    """Results of the second look at a page of suspects."""

    standing: list[Suspect] = field(default_factory=list)
    in_flight: list[Suspect] = field(default_factory=list)
    cleared: int = 0
    unseen: int = 0
    """Suspects whose inventory did not reply. They are not reported."""
    unreadable: list[UnreadableInventory] = field(default_factory=list)


async def recheck(
    store: Store, inventories: Mapping[str, Inventory], rules: Sequence[Rule], clock: RunClock, suspects: list[Suspect]
) -> Rechecked:
    """Look suspects up again in every inventory that supports it, and apply the rules again. Other inventories count as
    the pass saw them."""
    rechecked = Rechecked()
    seen = await _seen(store, inventories, rules, suspects, rechecked)
    silent = {one.inventory for one in rechecked.unreadable}
    for suspect in suspects:
        rule = rules[suspect.rule]
        if silent.intersection(rule.involved):
            rechecked.unseen += 1
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
                rechecked.standing.append(again)
            case RuleVerdict.IN_FLIGHT:
                rechecked.in_flight.append(again)
            case RuleVerdict.FINE:
                rechecked.cleared += 1
    return rechecked


async def _seen(
    store: Store,
    inventories: Mapping[str, Inventory],
    rules: Sequence[Rule],
    suspects: list[Suspect],
    rechecked: Rechecked,
) -> dict[str, dict[Any, Facts]]:
    seen: dict[str, dict[Any, Facts]] = {}
    for name, inventory in inventories.items():
        keys = [suspect.key for suspect in suspects if name in rules[suspect.rule].involved]
        if not keys or not inventory.can_look:
            continue
        try:
            seen[name] = await inventory.look(store, list(dict.fromkeys(keys)))
        except Exception as error:
            rechecked.unreadable.append(UnreadableInventory(name, code_of(error), None, safe_text(str(error))))
    return seen
