"""Give requests their temporary ids that were inserted without one, by plain SQL or before there were any."""

import sqlalchemy as sa

from rowmill_systems.companies.models import CompaniesTables
from rowmill_systems.companies.salts import Salts

FILL_BATCH = 1000


# served by: ix_enrichment_requests_temp_id
def fill_temp_ids(connection: sa.Connection, tables: CompaniesTables, salts: Salts, *, batch: int = FILL_BATCH) -> int:
    """Fill in some temporary ids that are NULL. Return how many."""
    c = tables.requests.c
    some = sa.select(c.id, c.normalized_name).where(c.temp_id.is_(None), c.normalized_name != "").limit(batch)
    rows = connection.execute(some.with_for_update(skip_locked=True)).all()
    if rows:
        change = sa.update(tables.requests).where(c.id == sa.bindparam("of_id")).values(temp_id=sa.bindparam("made"))
        connection.execute(change, [{"of_id": row.id, "made": salts.temp_id(row.normalized_name)} for row in rows])
    return len(rows)
