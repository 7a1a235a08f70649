"""Limits that a whole fleet shares: calls per period, concurrent calls, budgets, and circuit breakers for providers."""

from rowmill.limits.call import Call, together
from rowmill.limits.limit import Limit
from rowmill.limits.registry import Limits
from rowmill.limits.state import LimitState
from rowmill.model.limits import Breaker, Budget, Rate

__all__ = ["Breaker", "Budget", "Call", "Limit", "LimitState", "Limits", "Rate", "together"]
