"""Limits that a whole fleet shares: calls in a time, calls at once, budgets, and providers that are down."""

from rowmill.limits.call import Call, together
from rowmill.limits.limit import Limit
from rowmill.limits.registry import Limits
from rowmill.limits.state import LimitState
from rowmill.model.limits import Breaker, Budget, Rate

__all__ = ["Breaker", "Budget", "Call", "Limit", "LimitState", "Limits", "Rate", "together"]
