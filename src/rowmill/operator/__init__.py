"""Questions about rows and changes to them, for people and dashboards: filters, lists, counts, why, requeue, cancel,
prune."""

from rowmill.operator.browse import RowView
from rowmill.operator.counts import RowCounts
from rowmill.operator.why import Why

__all__ = ["RowCounts", "RowView", "Why"]
