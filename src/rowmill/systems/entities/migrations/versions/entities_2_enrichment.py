"""Entities are a queue: a status per stage, attempts, times and a lease; and what they are linked to.

Entities that were there begin at the beginning. Those whose status says that somebody is at work on them get the time
of a whole lease, and are taken for left behind after that.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from rowmill.systems.common.missing import missing_columns, missing_indexes

revision = "entities_2"
down_revision = "entities_1"
branch_labels = None
depends_on = None

LEASE_SECONDS = 120
RUNNING = ("LINKING", "ENRICHING", "SAVING")
MOMENT = sa.DateTime(timezone=True)
JSON = sa.JSON().with_variant(JSONB(), "postgresql")
COLUMNS: dict[str, tuple[Any, dict[str, Any]]] = {
    "enrichment_status": (sa.String(20), {"nullable": False, "server_default": "PENDING"}),
    "enrichment_error": (sa.Text, {}),
    "enrichment_retry_count": (sa.Integer, {"nullable": False, "server_default": "0"}),
    "enrichment_available_at": (MOMENT, {}),
    "enriched_at": (MOMENT, {}),
    "enrichment_note": (sa.Text, {}),
    "enrichment_seconds": (sa.Double, {"nullable": False, "server_default": "0"}),
    "service_failures": (sa.Integer, {"nullable": False, "server_default": "0"}),
    "lease": (sa.BigInteger, {}),
    "leased_until": (MOMENT, {}),
    "wikidata_id": (sa.String(20), {}),
    "dbpedia_uri": (sa.Text, {}),
    "other_ids": (JSON, {}),
    "link_confidence": (sa.Double, {}),
    "link_source": (sa.Text, {}),
    "link_label": (sa.Text, {}),
    "enriched_properties": (JSON, {}),
}
INDEXES = {"ix_entities_status": ["enrichment_status", "created_at", "id"]}


def upgrade() -> None:
    for name in missing_columns(op.get_bind(), "entities", COLUMNS):
        type_, options = COLUMNS[name]
        op.add_column("entities", sa.Column(name, type_, **options))
    start_what_runs()
    for name in missing_indexes(op.get_bind(), "entities", INDEXES):
        op.create_index(name, "entities", INDEXES[name])


def start_what_runs() -> None:
    entities = sa.table("entities", sa.column("enrichment_status"), sa.column("leased_until"))
    if op.get_context().dialect.name == "sqlite":
        later: sa.ColumnElement[Any] = sa.func.datetime("now", f"+{LEASE_SECONDS} seconds")
    else:
        later = sa.func.now() + sa.text(f"interval '{LEASE_SECONDS} seconds'")
    op.execute(sa.update(entities).where(entities.c.enrichment_status.in_(RUNNING)).values(leased_until=later))


def downgrade() -> None:
    for index in sa.inspect(op.get_bind()).get_indexes("entities"):
        # Those of Rowmill's too, which `rowmill migrate` made: SQLite drops no column that an index names.
        if index["name"] in INDEXES or str(index["name"]).startswith("rowmill_"):
            op.drop_index(str(index["name"]), "entities")
    for name in reversed(COLUMNS):
        op.drop_column("entities", name)
