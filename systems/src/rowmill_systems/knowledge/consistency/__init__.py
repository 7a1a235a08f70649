"""Do the database, the objects and the vectors agree? `check` finds where they do not, and mends it by events.

It compares from every side in one pass over sorted keys, in little memory. What is young is in flight; the rest is
looked at twice. A store that can't be read says nothing about what it has. `kinds.KINDS` lists what can be found.
"""

from rowmill_systems.knowledge.consistency.checking import (
    Consistency,
    ConsistencyReport,
    check,
    check_on_schedule,
    history,
    open_findings,
)
from rowmill_systems.knowledge.consistency.kinds import KINDS, ORPHANS, DriftKind, Mending
from rowmill_systems.knowledge.consistency.orphans import OrphanReport, preview_orphans, remove_orphans

__all__ = [
    "KINDS",
    "ORPHANS",
    "Consistency",
    "ConsistencyReport",
    "DriftKind",
    "Mending",
    "OrphanReport",
    "check",
    "check_on_schedule",
    "history",
    "open_findings",
    "preview_orphans",
    "remove_orphans",
]
