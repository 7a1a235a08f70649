"""Compare two or more inventories of the same items, report what is missing where, and correct it."""

from rowmill.reconcile.correct import Correction, requeue
from rowmill.reconcile.files import files
from rowmill.reconcile.inventory import Inventory, inventory
from rowmill.reconcile.item import END
from rowmill.reconcile.merge import UnreadableInventory
from rowmill.reconcile.reconciliation import Reconciliation
from rowmill.reconcile.report import Finding, Reconciled
from rowmill.reconcile.rows import rows
from rowmill.reconcile.rules import Rule, differs, missing, stale

__all__ = [
    "END",
    "Correction",
    "Finding",
    "Inventory",
    "Reconciled",
    "Reconciliation",
    "Rule",
    "UnreadableInventory",
    "differs",
    "files",
    "inventory",
    "missing",
    "requeue",
    "rows",
    "stale",
]
