"""Answers that are there already when a request's turn comes: nobody is asked twice for a name."""

from collections.abc import Sequence

import sqlalchemy as sa

from rowmill_systems.companies.lookup import LookupDecision, LookupOutcome
from rowmill_systems.companies.mappings import CompanyMappingRepository
from rowmill_systems.companies.models import INTERNAL, TIERS

BY_NAME = (TIERS.index("hardcode"), TIERS.index("company_name"))
"""Tiers of mappings that need no more than the name, the strongest first."""


# served by: uq_company_mappings_alias, uq_company_reviews_open
def known_answers(mappings: CompanyMappingRepository, names: Sequence[str]) -> dict[str, LookupDecision]:
    """Return what is known of normalised names: from mappings of people, from answers of providers that still hold, and
    from reviews that are open.

    A mapping may have come while the request waited: from a person, an import, or a lookup in a pipeline.
    """
    tiers, cached = mappings.find_mapped(set(names)), mappings.find_known(set(names))
    reviews = mappings.tables.reviews.c
    waiting = mappings.connection.scalars(
        sa.select(reviews.normalized_name).where(reviews.normalized_name.in_(names), reviews.state.in_(["open"]))
    )
    known = {name: LookupDecision(LookupOutcome.UNSURE) for name in waiting}
    for name in names:
        mapped = next((tiers[tier][name] for tier in BY_NAME if name in tiers[tier]), None)
        answer = cached[name].cached if name in cached else None
        if mapped is not None:
            known[name] = LookupDecision(LookupOutcome.ACCEPTED, INTERNAL, mapped[0], confidence=mapped[1])
        elif answer is not None and answer.company_id is not None:
            known[name] = LookupDecision(
                LookupOutcome.ACCEPTED, answer.source, answer.company_id, confidence=answer.confidence
            )
        elif answer is not None:
            known.setdefault(name, LookupDecision(LookupOutcome.NO_MATCH, answer.source, confidence=answer.confidence))
    return known
