"""Compare two or more inventories of the same items, report what is missing where, and correct it."""

from rowmill.reconcile.correct import Correction, requeue
from rowmill.reconcile.files import files
from rowmill.reconcile.findings import RecordedFinding
from rowmill.reconcile.inventory import Inventory, inventory
from rowmill.reconcile.item import END
from rowmill.reconcile.merge import UnreadableInventory
from rowmill.reconcile.reconciliation import Reconciliation
from rowmill.reconcile.report import Finding, Reconciled
from rowmill.reconcile.rows import rows
from rowmill.reconcile.rules import Rule, differs, missing, stale
from rowmill.reconcile.runs import RunView

__all__ = [
    "END",
    "Correction",
    "Finding",
    "Inventory",
    "Reconciled",
    "Reconciliation",
    "RecordedFinding",
    "Rule",
    "RunView",
    "UnreadableInventory",
    "differs",
    "files",
    "inventory",
    "missing",
    "requeue",
    "rows",
    "stale",
]
