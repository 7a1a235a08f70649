"""Mark the requests of a name as answered, whoever has them."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from rowmill_systems.companies.models import CompaniesTables
from rowmill_systems.parts.clock import now
from rowmill_systems.parts.values import storable

LONGEST_ANSWERER = 100
"""Characters of who answered, as far as a request keeps them."""


def answer_requests(
    connection: sa.Connection,
    tables: CompaniesTables,
    name: str,
    company_id: str | None,
    *,
    by: str,
    confidence: float = 1.0,
    raw_name: str | None = None,
    temp_id: str | None = None,
) -> list[str | None]:
    """Mark the requests of a normalised name that have no company as done. Return their temporary ids.

    A worker that has one of them loses its lease. Without such a request, one is recorded that is done: a sweep goes by
    requests, and would not find the rows that the transaction of the caller leaves. With None for the company, the name
    means none that is known.
    """
    found = mark_answered(connection, tables, name, company_id, by=by, confidence=confidence)
    if not found and company_id is not None:
        made = {"raw_name": storable(raw_name or name), "normalized_name": name, "temp_id": temp_id}
        answer = _answer(connection, company_id, by, confidence)
        connection.execute(sa.insert(tables.requests).values(answer | made))
    return [row.temp_id for row in found]


# served by: ix_enrichment_requests_name
def mark_answered(
    connection: sa.Connection,
    tables: CompaniesTables,
    name: str,
    company_id: str | None,
    *,
    by: str,
    confidence: float = 1.0,
) -> Sequence[Any]:
    """Mark the requests of a normalised name that have no company as done. Return their `id`, `raw_name` and
    `temp_id`: of several that do it at once, one gets them."""
    requests = tables.requests
    unresolved = sa.or_(requests.c.status != "done", requests.c.resolved_company_id.is_(None))
    answer = _answer(connection, company_id, by, confidence)
    return connection.execute(
        sa.update(requests)
        .where(requests.c.normalized_name == name, unresolved)
        .values(answer | {"last_error": None, "lease": None, "leased_until": None})
        .returning(requests.c.id, requests.c.raw_name, requests.c.temp_id)
    ).all()


def _answer(connection: sa.Connection, company_id: str | None, by: str, confidence: float) -> dict[str, Any]:
    current = now(connection.dialect.name)
    return {
        "status": "done",
        "resolved_company_id": company_id,
        "resolved_by": storable(by)[:LONGEST_ANSWERER],
        "confidence": None if company_id is None else confidence,
        "outcome": "no_match" if company_id is None else "accepted",
        "next_retry_at": None,
        "finished_at": current,
        "updated_at": current,
    }
