"""What a run found and did."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from rowmill.reconcile.item import Facts, key_text
from rowmill.reconcile.merge import UnreadableInventory

KEPT = 1000
"""Findings that a report holds. The counts are of all."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it should be."""

    kind: str
    """The name of its rule."""
    key: Any
    present: tuple[str, ...]
    absent: tuple[str, ...]
    times: Mapping[str, datetime | None]
    """When it last changed, in each inventory that has it."""
    facts: Mapping[str, Facts]
    """What each inventory tells of it."""
    new: bool = True
    found_at: datetime | None = None
    """When it was found first; None before it was written down."""
    corrected_at: datetime | None = None

    @property
    def text(self) -> str:
        """The key as text."""
        return key_text(self.key)

    def told(self) -> dict[str, Any]:
        """Fit for a log: without what the inventories tell."""
        times = {name: time.isoformat() for name, time in self.times.items() if time is not None}
        told = {"kind": self.kind, "key": self.text, "present": list(self.present), "absent": list(self.absent)}
        return told | {"times": times, "new": self.new}


@dataclass(slots=True)
class Reconciled:
    """The report of a run."""

    name: str
    executed: bool
    """False: a plan. Nothing was written, and `planned` says what would have been corrected."""
    started_at: datetime
    run: int | None = None
    """Its number in the history."""
    ended_at: datetime | None = None
    observed: dict[str, int] = field(default_factory=dict)
    """Things that each inventory gave."""
    counts: dict[str, int] = field(default_factory=dict)
    """Findings by kind."""
    findings: list[Finding] = field(default_factory=list)
    """The first thousand."""
    spoiled: list[UnreadableInventory] = field(default_factory=list)
    """Inventories that could not be observed to their end: nothing was concluded from their silence."""
    new: int = 0
    in_flight: int = 0
    """Younger than the grace period: no findings yet."""
    cleared: int = 0
    """Suspects that were as they should be on a second look."""
    unfounded: int = 0
    """Suspects that rest on an inventory which could not be observed: no findings."""
    planned: int = 0
    """Findings that are due for a correction, up to the cap."""
    corrected: int = 0
    failed: int = 0
    """Corrections that failed; the next run tries again."""
    remaining: int = 0
    """Findings due for a correction that were left to the next run."""
    closed: int = 0
    """Findings of earlier runs that are mended."""

    @property
    def drift(self) -> int:
        """How many findings there are."""
        return sum(self.counts.values())

    @property
    def outcome(self) -> str:
        return "spoiled" if self.spoiled else "ok"

    def count(self, finding: Finding) -> None:
        self.counts[finding.kind] = self.counts.get(finding.kind, 0) + 1
        self.new += finding.new
        if len(self.findings) < KEPT:
            self.findings.append(finding)

    def spoil(self, spoiled: UnreadableInventory) -> None:
        """Each inventory once."""
        if all(one.inventory != spoiled.inventory for one in self.spoiled):
            self.spoiled.append(spoiled)
