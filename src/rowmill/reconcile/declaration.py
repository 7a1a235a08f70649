"""A reconciliation as it is declared. All problems of a declaration are reported at once."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from rowmill.model.duration import DurationField
from rowmill.model.errors import BadRequest, DeclarationError
from rowmill.reconcile.correct import Corrections
from rowmill.reconcile.inventory import Inventory
from rowmill.reconcile.rules import Differs, Missing, Rule, RunClock, Stale

Progress = Callable[[int], None]
"""Called now and then with the number of keys that were compared."""


@dataclass(frozen=True)
class ReconciliationSpec:
    """The inventories and rules of a reconciliation, and what is done about findings."""

    name: str
    inventories: Mapping[str, Inventory | Any]
    rules: tuple[Rule, ...]
    correct: Corrections = None
    cap: int | None = 100
    """The most corrections in one run."""
    alert_above: int = 5
    """A run with more findings than this raises an alert."""
    grace: DurationField[float] = DurationField(0.0)
    """Seconds after its last change in any inventory for which an item counts as in flight."""
    recheck: bool = True
    """Look at suspects again before they are reported."""
    again_after: DurationField[float | None] = DurationField(None)
    """Seconds after which an open finding may be corrected again; None: never."""
    lease: DurationField[float] = DurationField(60.0)
    """Seconds after which another run may start if the process of this one died."""

    def clock(self, now: datetime) -> RunClock:
        return RunClock(now, timedelta(seconds=self.grace), self.inventories)

    def only(self, kinds: Collection[str]) -> "ReconciliationSpec":
        """Return a declaration of these rules alone, and of the inventories that they name."""
        rules = tuple(rule for rule in self.rules if rule.kind in kinds)
        if unknown := sorted(set(kinds) - {rule.kind for rule in rules}):
            known = ", ".join(rule.kind for rule in self.rules)
            raise BadRequest(f"reconciliation {self.name} has no rule {', '.join(unknown)}. It has: {known}")
        named = {name for rule in rules for name in rule.involved}
        correct = self.correct
        if isinstance(correct, Mapping):
            correct = {kind: each for kind, each in correct.items() if kind in kinds}
        inventories = {name: each for name, each in self.inventories.items() if name in named}
        return replace(self, inventories=inventories, rules=rules, correct=correct)

    def check(self) -> None:
        problems = [
            *self._policies(),
            *self._kinds(),
            *(problem for rule in self.rules for problem in self._rule(rule)),
        ]
        if problems:
            raise DeclarationError(self.name, problems, "reconciliation")

    def _policies(self) -> Iterator[str]:
        if not self.inventories:
            yield "it has no inventories: inventories={name: reconcile.rows(...), ...}"
        for name, inventory in self.inventories.items():
            if not isinstance(inventory, Inventory):
                yield f"{name} is no inventory but {type(inventory).__name__}: wrap it in reconcile.inventory(...)"
        if not self.rules:
            yield "it has no rules: rules=[reconcile.missing(...), ...]"
        if self.cap is not None and self.cap < 0:
            yield f"cap can't be negative: {self.cap}"
        if self.grace < 0:
            yield f"grace can't be negative: {self.grace}"
        if self.lease <= 0:
            yield f"lease must be more than 0 seconds, not {self.lease}"

    def _kinds(self) -> Iterator[str]:
        kinds = [rule.kind for rule in self.rules]
        for kind in sorted({kind for kind in kinds if kinds.count(kind) > 1}):
            yield f"two rules are called {kind}: findings are told apart by the name of their rule"
        if isinstance(self.correct, Mapping):
            for kind in self.correct:
                if kind not in kinds:
                    yield f"correct names {kind}, which is no rule. There are: {', '.join(kinds)}"

    def _rule(self, rule: Rule) -> Iterator[str]:
        for name in rule.involved:
            if name not in self.inventories:
                yield f"rule {rule.kind} names inventory {name}. There are: {', '.join(self.inventories)}"
        timed = any(getattr(self.inventories.get(name), "at", None) is not None for name in rule.present)
        match rule:
            case Missing():
                if both := set(rule.present) & set(rule.absent):
                    yield f"rule {rule.kind} wants {', '.join(sorted(both))} to have a key and to lack it"
                if not rule.present or not rule.absent:
                    yield f"rule {rule.kind} has to say where a thing is present, and where it is absent"
                yield from self._in_flight(rule, timed)
            case Differs():
                if len(set(rule.present)) < 2:
                    yield f"rule {rule.kind} compares inventories: name at least two with present=(...)"
                yield from self._in_flight(rule, timed)
            case Stale():
                if rule.older is not None and not timed:
                    yield f"rule {rule.kind} asks how old a thing is: name the time of {rule.present[0]} with at="

    def _in_flight(self, rule: Rule, timed: bool) -> Iterator[str]:
        if self.grace and not timed:
            yield (
                f"rule {rule.kind} can't tell what is in flight: none of {', '.join(rule.present)} has a time. "
                "Name it with at=, or leave grace away"
            )


def declared(
    name: str, inventories: Mapping[str, Inventory], rules: Sequence[Rule], **policies: object
) -> ReconciliationSpec:
    """Return a checked declaration. Raises DeclarationError."""
    made = ReconciliationSpec(name, dict(inventories), tuple(rules), **policies)  # type: ignore[arg-type]
    made.check()
    return made
