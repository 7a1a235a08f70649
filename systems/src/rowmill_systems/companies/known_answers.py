"""Answers that are there already when a request's turn comes: nobody is asked twice for a name."""

from collections.abc import Sequence

import sqlalchemy as sa

from rowmill_systems.companies.clock import now
from rowmill_systems.companies.lookup import LookupDecision, LookupOutcome
from rowmill_systems.companies.models import INTERNAL, CompaniesTables


# served by: uq_company_mappings_alias, uq_company_reviews_open
def known_answers(
    connection: sa.Connection, tables: CompaniesTables, names: Sequence[str]
) -> dict[str, LookupDecision]:
    """Return what is known of normalised names: from mappings of people, from answers of providers that still hold, and
    from reviews that are open.

    A mapping may have come while the request waited: from a person, an import, or a lookup in a pipeline.
    """
    mappings, reviews = tables.mappings.c, tables.reviews.c
    fresh = sa.or_(mappings.expires_at.is_(None), mappings.expires_at > now(connection.dialect.name))
    found = connection.execute(
        sa.select(mappings.alias, mappings.company_id, mappings.source, mappings.confidence)
        .where(mappings.match_type == "company_name", mappings.alias.in_(names), fresh)
        # The last one counts: no match, then the best answer of a provider, then what people say.
        .order_by(
            sa.case((mappings.source == INTERNAL, 2), (mappings.company_id.is_not(None), 1), else_=0),
            mappings.confidence,
        )
    )
    waiting = connection.scalars(
        sa.select(reviews.normalized_name).where(reviews.normalized_name.in_(names), reviews.state.in_(["open"]))
    )
    known = {name: LookupDecision(LookupOutcome.UNSURE) for name in waiting}
    for alias, company_id, source, confidence in found:
        outcome = LookupOutcome.NO_MATCH if company_id is None else LookupOutcome.ACCEPTED
        if outcome is LookupOutcome.ACCEPTED or alias not in known:
            known[alias] = LookupDecision(outcome, source, company_id, confidence=confidence)
    return known
