"""Decisions of people: a name means a company. Targets get its id in the same transaction."""

import sqlalchemy as sa

import rowmill as rm
from rowmill_systems.companies.companies import Companies
from rowmill_systems.companies.company_ids import checked_id
from rowmill_systems.companies.mappings import CompanyMappingRepository, ConflictGone
from rowmill_systems.companies.reviews import decide
from rowmill_systems.companies.write_back import resolve_names, write_back


def decide_review(
    connection: sa.Connection, companies: Companies, review_id: int, company_id: str | None, by: str
) -> int:
    """Decide an open review: this company, or None for none of the candidates. Return the rows of targets written.

    Raises ReviewGone if somebody else decided it meanwhile, and BadRequest if the id is none.
    """
    if company_id is not None:
        company_id = checked_id(company_id)
    decision = decide(connection, companies.settings, review_id, company_id, by=by, salts=companies.salts)
    if company_id is None:
        return 0
    old_ids = companies.salts.temp_ids(decision.normalized_name) | set(decision.temp_ids)
    companies.call_back_for(connection, decision.normalized_name, company_id)
    return write_back(connection, companies.tables, dict.fromkeys(old_ids, company_id), companies.log).rows


def decide_conflict(connection: sa.Connection, companies: Companies, conflict_id: int, company_id: str, by: str) -> int:
    """Decide which of two ids an alias has. Return the rows of targets written.

    Raises ConflictGone if it was decided meanwhile, and BadRequest if the alias has no such id.
    """
    company_id = checked_id(company_id)
    allowed = _ids_of(connection, companies, conflict_id)
    if company_id not in allowed:
        raise rm.errors.BadRequest(f"conflict {conflict_id} has another company id. Choose one of {', '.join(allowed)}")
    mappings = CompanyMappingRepository(connection, companies.settings)
    match_type, alias = mappings.resolve_conflict(conflict_id, company_id)
    if match_type != "company_name":
        return 0
    names = {alias: company_id}
    report = resolve_names(connection, companies.tables, companies.salts, names, companies.log, resolved_by=by)
    companies.call_back_for(connection, alias, company_id)
    return report.rows


# served by: uq_company_conflicts
def _ids_of(connection: sa.Connection, companies: Companies, conflict_id: int) -> list[str]:
    """Return the ids that the alias of a conflict has, over all of its conflicts."""
    table = companies.tables.conflicts
    alias = connection.execute(sa.select(table.c.match_type, table.c.alias).where(table.c.id == conflict_id)).first()
    if alias is None:
        raise ConflictGone(f"there is no conflict {conflict_id}: it was resolved meanwhile. List them again")
    same = sa.and_(table.c.match_type == alias.match_type, table.c.alias == alias.alias)
    found = connection.execute(sa.select(table.c.company_id, table.c.other_company_id).where(same))
    return sorted({each for pair in found for each in pair})
