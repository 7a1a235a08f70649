"""Detect answers with status 200 that are failures: each service has its own way to say so."""

from collections.abc import Callable
from typing import Any

import httpx2

import rowmill as rm

FailureCheck = Callable[[str, Any, httpx2.Headers], rm.errors.WorkError | None]
"""Called with the service's name, its answer and the headers. Returns the error that the answer means, or None."""


def requires_key(*keys: str) -> FailureCheck:
    """Return a check for services whose answers always have one of these keys."""

    def fault(name: str, answer: Any, headers: httpx2.Headers) -> rm.errors.WorkError | None:
        if isinstance(answer, dict) and any(key in answer for key in keys):
            return None
        return rm.errors.ProviderDown(f"{name} answers with something else than was asked for")

    return fault


def no_failure(name: str, answer: Any, headers: httpx2.Headers) -> rm.errors.WorkError | None:
    return None
