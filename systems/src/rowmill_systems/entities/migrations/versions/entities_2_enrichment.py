"""Entities are a queue: a status per stage, attempts, times and a lease; and what they are linked to.

Entities that were there begin at the beginning. Those whose status says that somebody is at work on them get the time
of a whole lease, and are taken for left behind after that. A status of NULL is written as PENDING, now and by a trigger
from now on: a claim looks for words.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from rowmill.systems.revisions import indexes_of, missing_columns, missing_indexes
from rowmill_systems.entities import null_status
from rowmill_systems.entities.migrations import shape_given

revision = "entities_2"
down_revision = "entities_1"
branch_labels = None
depends_on = None

LEASE_SECONDS = 120
RUNNING = ("LINKING", "ENRICHING", "SAVING")
MOMENT = sa.DateTime(timezone=True)
JSON = sa.JSON().with_variant(JSONB(), "postgresql")
COLUMNS: dict[str, tuple[Any, dict[str, Any]]] = {
    "enrichment_status": (sa.String(20), {"server_default": "PENDING"}),
    "enrichment_error": (sa.Text, {}),
    "enrichment_retry_count": (sa.Integer, {"server_default": "0"}),
    "enrichment_available_at": (MOMENT, {}),
    "enriched_at": (MOMENT, {}),
    "enrichment_note": (sa.Text, {}),
    "enrichment_seconds": (sa.Double, {"nullable": False, "server_default": "0"}),
    "answers_since": (MOMENT, {}),
    "lease": (sa.BigInteger, {}),
    "leased_until": (MOMENT, {}),
    "wikidata_id": (sa.String(20), {}),
    "dbpedia_uri": (sa.Text, {}),
    "other_ids": (JSON, {}),
    "linking_confidence": (sa.Double, {}),
    "linking_source": (sa.Text, {}),
    "linking_label": (sa.Text, {}),
    "linking_reason": (sa.Text, {}),
    "linking_candidates": (JSON, {}),
    "enriched_properties": (JSON, {}),
}


def columns() -> dict[str, tuple[Any, dict[str, Any]]]:
    return {shape_given().column(usual): given for usual, given in COLUMNS.items()}


def indexes() -> dict[str, list[str]]:
    shape = shape_given()
    return {"ix_entities_status": [shape.column("enrichment_status"), shape.column("created_at"), shape.key]}


def upgrade() -> None:
    connection, shape = op.get_bind(), shape_given()
    for name in missing_columns(connection, "entities", columns()):
        type_, options = columns()[name]
        op.add_column("entities", sa.Column(name, type_, **options))
    null_status.make_triggers(connection, shape)
    null_status.fill(connection, shape)
    start_what_runs()
    for name in missing_indexes(connection, "entities", indexes()):
        op.create_index(name, "entities", indexes()[name])


def start_what_runs() -> None:
    shape = shape_given()
    status, until = shape.column("enrichment_status"), shape.column("leased_until")
    entities = sa.table("entities", sa.column(status), sa.column(until))
    if op.get_context().dialect.name == "sqlite":
        later: sa.ColumnElement[Any] = sa.func.datetime("now", f"+{LEASE_SECONDS} seconds")
    else:
        later = sa.func.now() + sa.text(f"interval '{LEASE_SECONDS} seconds'")
    op.execute(sa.update(entities).where(entities.c[status].in_(RUNNING)).values({until: later}))


def downgrade() -> None:
    null_status.drop_triggers(op.get_bind())
    for index in indexes_of(op.get_bind(), "entities"):
        # Those of Rowmill's too, which `rowmill migrate` made: SQLite drops no column that an index names.
        if index["name"] in indexes() or str(index["name"]).startswith("rowmill_"):
            op.drop_index(str(index["name"]), "entities")
    for name in reversed(columns()):
        op.drop_column("entities", name)
