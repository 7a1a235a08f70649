"""The report of a run: what it found and did."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from rowmill.reconcile.item import Facts, key_text
from rowmill.reconcile.merge import UnreadableInventory

KEPT = 1000
"""Findings that a report lists. Its counts include all."""


@dataclass(frozen=True, slots=True)
class Finding:
    """An item that breaks a rule."""

    kind: str
    """The name of the rule."""
    key: Any
    present: tuple[str, ...]
    absent: tuple[str, ...]
    times: Mapping[str, datetime | None]
    """When the item last changed, in each inventory that has it."""
    facts: Mapping[str, Facts]
    """What each inventory knows about the item."""
    new: bool = True
    found_at: datetime | None = None
    """When it was first found; None if it is not recorded yet."""
    corrected_at: datetime | None = None

    @property
    def text(self) -> str:
        """The key as text."""
        return key_text(self.key)

    def as_log(self) -> dict[str, Any]:
        """Return the finding for a log, without the facts."""
        times = {name: time.isoformat() for name, time in self.times.items() if time is not None}
        listed = {"kind": self.kind, "key": self.text, "present": list(self.present), "absent": list(self.absent)}
        return listed | {"times": times, "new": self.new}


@dataclass(slots=True)
class Reconciled:
    """The report of a run."""

    name: str
    executed: bool
    """False for a plan: nothing was written, and `planned` counts what would have been corrected."""
    started_at: datetime
    run: int | None = None
    """Number of the run in the history."""
    ended_at: datetime | None = None
    observed: dict[str, int] = field(default_factory=dict)
    """Number of items that each inventory returned."""
    counts: dict[str, int] = field(default_factory=dict)
    """Number of findings by kind."""
    findings: list[Finding] = field(default_factory=list)
    """The first thousand findings."""
    unreadable: list[UnreadableInventory] = field(default_factory=list)
    """Inventories that could not be read to their end. Nothing was concluded from the missing part."""
    new: int = 0
    in_flight: int = 0
    """Items younger than the grace period. They are not findings yet."""
    cleared: int = 0
    """Suspects that were correct on a second look."""
    inconclusive: int = 0
    """Suspects that depend on an unreadable inventory. They are not findings."""
    planned: int = 0
    """Findings due for correction, up to the cap."""
    corrected: int = 0
    failed: int = 0
    """Corrections that failed. The next run tries again."""
    remaining: int = 0
    """Findings due for correction that were left to the next run."""
    closed: int = 0
    """Findings of earlier runs that are resolved."""

    @property
    def drift(self) -> int:
        """Number of findings."""
        return sum(self.counts.values())

    @property
    def outcome(self) -> str:
        return "incomplete" if self.unreadable else "ok"

    def count(self, finding: Finding) -> None:
        self.counts[finding.kind] = self.counts.get(finding.kind, 0) + 1
        self.new += finding.new
        if len(self.findings) < KEPT:
            self.findings.append(finding)

    def add_unreadable(self, unreadable: UnreadableInventory) -> None:
        """Add an inventory that could not be read, once."""
        if all(one.inventory != unreadable.inventory for one in self.unreadable):
            self.unreadable.append(unreadable)
