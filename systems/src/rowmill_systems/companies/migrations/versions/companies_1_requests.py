"""Requests to resolve names. A table that is there gets what it lacks, and what it holds stays.

`company_meta` notes what was added, so that a downgrade takes away just that.
"""

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

from rowmill_systems.companies.migrations.existing import check_existing
from rowmill_systems.companies.migrations.triggers import drop_triggers, make_triggers
from rowmill_systems.companies.models import tables_of
from rowmill_systems.companies.settings import STALE_MINUTES
from rowmill_systems.companies.temp_ids import normalize_for_temp_id
from rowmill_systems.parts.clock import now

revision = "companies_1"
down_revision = None
branch_labels = ("companies",)
depends_on = None

TABLE = "enrichment_requests"
MOMENT = sa.DateTime(timezone=True)
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NOW = sa.func.now()
ADDED = "added_columns"
MERGED = "merged: another request for this name is open"
FILL_BATCH = 1000
OPEN = "status IN ('pending', 'processing')"
INDEXES: dict[str, tuple[list[str], bool, str | None]] = {
    "ix_enrichment_requests_status_next_retry": (["status", "next_retry_at"], False, None),
    "ix_enrichment_requests_status_id": (["status", "id"], False, None),
    "ix_enrichment_requests_name": (["normalized_name"], False, None),
    "ix_enrichment_requests_temp_id": (["temp_id"], False, None),
    "ix_enrichment_requests_resolved": (["finished_at", "id"], False, "resolved_company_id IS NOT NULL"),
    "uq_enrichment_requests_open": (["normalized_name"], True, OPEN),
}


def columns() -> "dict[str, sa.Column[Any]]":
    found: list[sa.Column[Any]] = [
        sa.Column("id", SERIAL, sa.Identity(), primary_key=True),
        sa.Column("raw_name", sa.Text, nullable=False),
        sa.Column("normalized_name", sa.Text, nullable=False),
        sa.Column("temp_id", sa.Text),
        sa.Column("status", sa.String(20), nullable=False, server_default="pending"),
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("next_retry_at", MOMENT, server_default=NOW),
        sa.Column("last_error", sa.Text),
        sa.Column("resolved_company_id", sa.String(100)),
        sa.Column("resolved_by", sa.String(100)),
        sa.Column("outcome", sa.String(20)),
        sa.Column("confidence", sa.Double),
        sa.Column("created_at", MOMENT, nullable=False, server_default=NOW),
        sa.Column("updated_at", MOMENT, nullable=False, server_default=NOW),
        sa.Column("finished_at", MOMENT),
        sa.Column("lease", sa.BigInteger),
        sa.Column("leased_until", MOMENT),
    ]
    return {column.name: column for column in found}


def upgrade() -> None:
    connection = op.get_bind()
    schema = tables_of(connection.dialect.name).requests.schema
    if schema is not None:
        op.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    was_there = sa.inspect(connection).has_table(TABLE, schema)
    if was_there:
        check_existing(connection, schema)
    op.create_table(
        "company_meta",
        sa.Column("key", sa.String(100), primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
        schema=schema,
        if_not_exists=True,
    )
    if was_there:
        complete(connection, schema)
    else:
        known = sa.CheckConstraint(
            "status IN ('pending', 'processing', 'done', 'failed')", name="ck_enrichment_requests_status"
        )
        op.create_table(TABLE, *columns().values(), known, schema=schema, sqlite_autoincrement=True)
    existing = {str(index["name"]) for index in sa.inspect(connection).get_indexes(TABLE, schema)}
    for name, (names, unique, where) in INDEXES.items():
        if name not in existing:
            condition = None if where is None else sa.text(where)
            op.create_index(
                name, TABLE, names, unique=unique, schema=schema, postgresql_where=condition, sqlite_where=condition
            )
    make_triggers(connection, tables_of(connection.dialect.name))


def complete(connection: sa.Connection, schema: str | None) -> None:
    """Add what a table of before lacks, and fill it in where it is NULL."""
    there: dict[str, Any] = {
        column["name"]: column["default"] for column in sa.inspect(connection).get_columns(TABLE, schema)
    }
    missing = [name for name in columns() if name not in there]
    drop_triggers(connection, tables_of(connection.dialect.name))
    for name in missing:
        column = columns()[name]
        if connection.dialect.name == "sqlite" and name in ("next_retry_at", "created_at", "updated_at"):
            column.server_default, column.nullable = None, True  # SQLite adds no column whose default is a function
        if name == "normalized_name":
            column.nullable = True  # filled in below
        op.add_column(TABLE, column, schema=schema)
    meta = tables_of(connection.dialect.name).meta
    connection.execute(sa.insert(meta).values(key=ADDED, value=json.dumps(missing)))
    fill(connection, schema)
    if connection.dialect.name == "postgresql":
        for name in ("status", "attempts", "next_retry_at", "created_at", "updated_at"):
            if name in there and there[name] is None:
                default: Any = columns()[name].server_default
                op.alter_column(TABLE, name, server_default=default.arg, schema=schema)


def fill(connection: sa.Connection, schema: str | None) -> None:
    """Write only where there is NULL; then leave one open request per name."""
    dialect = connection.dialect.name
    c = sa.table(TABLE, *(sa.column(name, column.type) for name, column in columns().items()), schema=schema)
    current = now(dialect)
    for name, value in {"attempts": 0, "status": "pending", "created_at": current, "updated_at": current}.items():
        connection.execute(sa.update(c).where(c.c[name].is_(None)).values({name: value}))
    normalize(connection, c)
    pending, processing, failed = (c.c.status == word for word in ("pending", "processing", "failed"))
    connection.execute(sa.update(c).where(pending, c.c.next_retry_at.is_(None)).values(next_retry_at=current))
    connection.execute(sa.update(c).where(failed, c.c.next_retry_at.is_not(None)).values(next_retry_at=None))
    lease = sa.update(c).where(processing, c.c.leased_until.is_(None))
    connection.execute(lease.values(leased_until=after(dialect, c.c.updated_at)))
    finished = sa.update(c).where(c.c.status.in_(("done", "failed")), c.c.finished_at.is_(None))
    connection.execute(finished.values(finished_at=c.c.updated_at))
    merge(connection, c)


def after(dialect: str, since: "sa.ColumnElement[Any]") -> "sa.ColumnElement[Any]":
    """Return the end of a lease that began then."""
    if dialect == "sqlite":
        return sa.func.strftime("%Y-%m-%d %H:%M:%f000", since, f"+{STALE_MINUTES} minutes")
    return since + sa.literal_column(f"interval '{STALE_MINUTES} minutes'")


def normalize(connection: sa.Connection, c: sa.TableClause) -> None:
    """Fill in normal forms that are missing. A name that names nothing gets no lookup."""
    last: Any = None
    while True:
        wanted = sa.select(c.c.id, c.c.raw_name).where(sa.func.coalesce(c.c.normalized_name, "") == "")
        if last is not None:
            wanted = wanted.where(c.c.id > last)
        rows = connection.execute(wanted.order_by(c.c.id).limit(FILL_BATCH)).all()
        if not rows:
            break
        last = rows[-1].id
        change = sa.update(c).where(c.c.id == sa.bindparam("of_id")).values(normalized_name=sa.bindparam("normal"))
        names = [{"of_id": row.id, "normal": normalize_for_temp_id(row.raw_name or "")} for row in rows]
        connection.execute(change, names)
    blank = sa.update(c).where(c.c.normalized_name == "", c.c.status.in_(("pending", "processing")))
    connection.execute(
        blank.values(status="failed", last_error="blank_name", next_retry_at=None, lease=None, leased_until=None)
    )


def merge(connection: sa.Connection, c: sa.TableClause) -> None:
    """Keep one open request per name: the one that somebody works on, or else the oldest. The others are answered
    together with it, and stay in the table as done."""
    first = sa.case((c.c.status == "processing", 0), else_=1)
    place = sa.func.row_number().over(partition_by=c.c.normalized_name, order_by=(first, c.c.id)).label("place")
    ranked = sa.select(c.c.id, place).where(c.c.status.in_(("pending", "processing"))).subquery()
    current = now(connection.dialect.name)
    others = sa.select(ranked.c.id).where(ranked.c.place > 1)
    connection.execute(
        sa.update(c)
        .where(c.c.id.in_(others))
        .values(
            status="done", outcome="merged", last_error=MERGED, lease=None, leased_until=None,
            finished_at=current, updated_at=current,
        )
    )  # fmt: skip


def downgrade() -> None:
    """A table that was there before stays, with its rows; a table of ours goes."""
    connection = op.get_bind()
    tables = tables_of(connection.dialect.name)
    schema, meta = tables.requests.schema, tables.meta
    added = connection.scalar(sa.select(meta.c.value).where(meta.c.key == ADDED))
    drop_triggers(connection, tables)
    for index in sa.inspect(connection).get_indexes(TABLE, schema):
        # Those of Rowmill's too, which `rowmill migrate` made: SQLite drops no column that an index names.
        if index["name"] in INDEXES or str(index["name"]).startswith("rowmill_"):
            op.drop_index(str(index["name"]), TABLE, schema=schema)
    if added is None:
        op.drop_table(TABLE, schema=schema)
    else:
        for name in reversed(json.loads(added)):
            op.drop_column(TABLE, name, schema=schema)
    op.drop_table("company_meta", schema=schema)
