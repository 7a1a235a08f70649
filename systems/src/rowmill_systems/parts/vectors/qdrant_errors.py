"""Errors of a Qdrant server, and of the way to it."""

from collections.abc import Iterator
from contextlib import contextmanager

from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

import rowmill as rm
from rowmill_systems.parts.vectors.errors import (
    CollectionMissing,
    VectorsRefused,
    VectorsUnavailable,
    WrongDimensions,
)

BROKEN = (ApiException, QdrantException, OSError, ValueError, AssertionError)
"""The client parses responses, and asserts that they have a result."""


class CollectionThere(VectorsUnavailable):
    """Somebody else made the collection in the same moment."""


@contextmanager
def translated() -> Iterator[None]:
    """Turn errors of the client into ours. Responses of others, as of a proxy, say nothing about what is stored."""
    try:
        yield
    except UnexpectedResponse as error:
        raise meaning(error) from error
    except TimeoutError as error:
        raise VectorsUnavailable("Qdrant takes too long") from error
    except ResponseHandlingException as error:
        kind = type(error.source).__name__
        raise VectorsUnavailable(f"Qdrant can't be reached, or its response can't be read: {kind}") from error
    except BROKEN as error:
        raise VectorsUnavailable(f"Qdrant can't do it now: {type(error).__name__}") from error


def meaning(error: UnexpectedResponse) -> rm.errors.WorkError:
    status = error.status_code or 0
    said = reason_in(error)
    if status == 404 and said.startswith("Not found: Collection"):
        return CollectionMissing("there is no such collection, or no longer")
    if status == 409:
        return CollectionThere("the collection is there already")
    if status == 400 and "dimension error" in said:
        return WrongDimensions("the collection has vectors of another length")
    if status in (401, 403):
        return VectorsRefused(f"Qdrant answers {status}: look at its key and the rights of it")
    if 400 <= status < 500 and status not in (408, 429):
        return VectorsRefused(f"Qdrant answers {status}: look at its address, its version and its settings")
    return VectorsUnavailable(f"Qdrant answers {status}")


def reason_in(error: UnexpectedResponse) -> str:
    """Return what Qdrant says; nothing if the response is not Qdrant's."""
    try:
        return str(error.structured()["status"]["error"])
    except (ValueError, KeyError, TypeError):
        return ""
