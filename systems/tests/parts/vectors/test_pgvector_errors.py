"""No error of the client of PostgreSQL gets out as it is."""

import asyncpg
import pytest

from rowmill_systems.parts.vectors.errors import VectorsUnavailable
from rowmill_systems.parts.vectors.pgvector_errors import translated


def test_a_session_that_was_terminated_in_a_transaction_is_unavailable() -> None:
    with pytest.raises(VectorsUnavailable, match="broke off"), translated():
        raise asyncpg.InternalClientError("cannot switch to state 15; another operation (2) is in progress")
