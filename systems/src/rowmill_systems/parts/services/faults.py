"""Detect answers with status 200 that are failures: each service has its own way to say so."""

from collections.abc import Callable
from typing import Any

import httpx2

import rowmill as rm

Fault = Callable[[str, Any, httpx2.Headers], rm.errors.WorkError | None]
"""Of the service's name, its answer and the headers; None: it is an answer."""


def with_key(*keys: str) -> Fault:
    """For services whose answers always have one of these."""

    def fault(name: str, answer: Any, headers: httpx2.Headers) -> rm.errors.WorkError | None:
        if isinstance(answer, dict) and any(key in answer for key in keys):
            return None
        return rm.errors.ProviderDown(f"{name} answers with something else than was asked for")

    return fault


def none(name: str, answer: Any, headers: httpx2.Headers) -> rm.errors.WorkError | None:
    return None
