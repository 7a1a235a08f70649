"""How knowledge bases report a failure in an answer with status 200."""

from typing import Any

import httpx2

import rowmill as rm
from rowmill_systems.parts.services.errors import RequestRejected, retry_after

LAG_SECONDS = 5.0

SLOW_DOWN = ("maxlag", "ratelimited", "cirrussearch-too-busy-error")
DOWN = ("readonly", "cirrussearch-backend-error", "search-error")
REFUSED = ("readapidenied", "permissiondenied", "blocked", "globalblocking-ipblocked", "mustbeloggedin")


def of_mediawiki(name: str, answer: Any, headers: httpx2.Headers) -> rm.errors.WorkError | None:
    """Check for MediaWiki's errors, which come with status 200.

    Repeats only their code: the text quotes the question.
    """
    if not isinstance(answer, dict):
        return rm.errors.ProviderDown(f"{name} answers with something else than was asked for")
    error = answer.get("error")
    if error is None and any(part in answer for part in ("entities", "search", "query")):
        return None
    code = error.get("code") if isinstance(error, dict) else None
    if not isinstance(code, str):
        return rm.errors.ProviderDown(f"{name} answers with something else than was asked for")
    if code in SLOW_DOWN:
        seconds = retry_after(headers) if "retry-after" in headers else LAG_SECONDS
        return rm.RateLimited(f"{name} asks us to slow down", retry_after=seconds)
    if code in DOWN or code.startswith("internal_api_error"):
        return rm.errors.ProviderDown(f"{name} has an error of its own")
    if code in REFUSED:
        return rm.errors.ProviderRefused(f"{name} does not let us in")
    return RequestRejected(f"{name} does not take the question")


def of_objects(name: str, answer: Any, headers: httpx2.Headers) -> rm.errors.WorkError | None:
    """Check for an object of objects, as RDF in JSON is."""
    if isinstance(answer, dict) and all(isinstance(value, dict) for value in answer.values()):
        return None
    return rm.errors.ProviderDown(f"{name} answers with something else than was asked for")


def of_reconciliation(name: str, answer: Any, headers: httpx2.Headers) -> rm.errors.WorkError | None:
    """Check for a manifest, results by query, rows of values, or proposed properties."""
    if isinstance(answer, dict) and (
        "identifierSpace" in answer
        or isinstance(answer.get("rows"), dict)
        or isinstance(answer.get("properties"), list)
        or any(isinstance(one, dict) and isinstance(one.get("result"), list) for one in answer.values())
    ):
        return None
    return rm.errors.ProviderDown(f"{name} answers with something else than was asked for")
