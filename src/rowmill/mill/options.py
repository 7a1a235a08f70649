"""What the declaration of a reconciliation takes by name."""

from typing import TypedDict

from rowmill.model.duration import Duration
from rowmill.reconcile.correct import Corrections


class ReconciliationOptions(TypedDict, total=False):
    """What `Mill.reconciliation` takes by name, beside inventories and rules."""

    correct: Corrections
    cap: int | None
    alert_above: int
    grace: Duration
    recheck: bool
    again_after: Duration | None
    lease: Duration
