"""What the declaration of a reconciliation takes by name."""

from typing import TypedDict

from rowmill.reconcile.correct import Corrections


class ReconciliationOptions(TypedDict, total=False):
    """What `Mill.reconciliation` takes by name, beside inventories and rules."""

    correct: Corrections
    cap: int | None
    alert_above: int
    grace: float
    recheck: bool
    again_after: float | None
    lease: float
