"""The options of `Mill.reconciliation`."""

from typing import TypedDict

from rowmill.model.duration import Duration
from rowmill.reconcile.correct import Corrections


class ReconciliationOptions(TypedDict, total=False):
    """The options of `Mill.reconciliation`, other than inventories and rules."""

    correct: Corrections
    cap: int | None
    alert_above: int
    grace: Duration
    recheck: bool
    again_after: Duration | None
    lease: Duration
