"""Rowmill beside Alembic.

In `env.py`, so that autogenerate leaves Rowmill's own tables, and its indexes on yours, alone:

    context.configure(..., include_name=rowmill_alembic.include_name, include_object=rowmill_alembic.include_object)

For Rowmill's own tables, a revision in a branch of their own, which `alembic upgrade heads` brings along:

    revision = "rowmill_1"
    down_revision = None
    branch_labels = ("rowmill",)

    def upgrade():
        rowmill_alembic.upgrade(op)

    def downgrade():
        rowmill_alembic.downgrade(op)

For a table of yours: `rowmill adopt TABLE --alembic migrations/` writes the revision.
"""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from alembic.operations import Operations

from rowmill.adopt import steps as fills
from rowmill.store import expressions
from rowmill.store.own import schema

INDEX_PREFIX = "rowmill_"


def include_name(name: str | None, type_: str, parent_names: Mapping[str, Any]) -> bool:
    """Hook for Alembic's `include_name`. Returns False for Rowmill's schema and tables, so that Alembic does not read
    them."""
    if type_ == "schema":
        return name != schema.SCHEMA
    if type_ == "table":
        return not _is_own(name, parent_names.get("schema_name"))
    return True


def include_object(object_: Any, name: str | None, type_: str, reflected: bool, compare_to: Any) -> bool:
    """Hook for Alembic's `include_object`. Returns False for Rowmill's tables, and for its indexes on yours. `rowmill
    migrate` and `rowmill adopt` manage those; Alembic can't compare an index on an expression."""
    if type_ == "table":
        return not _is_own(name, object_.schema) and not (reflected and _looks_own(object_))
    if type_ == "index":
        return not (name or "").startswith(INDEX_PREFIX)
    return True


def _is_own(name: str | None, schema_name: str | None) -> bool:
    if schema_name == schema.SCHEMA:
        return True
    return name in schema.own_tables("sqlite").metadata.tables


def _looks_own(table: sa.Table) -> bool:
    """Return whether a reflected table is Rowmill's own without its schema. That happens for a role named rowmill,
    whose default schema has that name."""
    own = schema.own_tables("postgresql").metadata.tables.get(f"{schema.SCHEMA}.{table.name}")
    return own is not None and table.schema is None and set(own.columns.keys()) == set(table.columns.keys())


def upgrade(op: Operations) -> None:
    """Migrate Rowmill's own tables to this version. Idempotent. With `--sql`, print the statements that create them."""
    if not op.get_context().as_sql:
        schema.migrate(op.get_bind())
        return
    scribe: Any = sa.create_mock_engine(f"{op.get_context().dialect.name}://", lambda ddl, *_, **__: op.execute(ddl))
    own = schema.own_tables(op.get_context().dialect.name)
    for version, make in schema.MIGRATIONS.items():
        make(scribe)
        op.execute(own.meta.insert().values(version=sa.literal_column(str(version))))


def downgrade(op: Operations) -> None:
    """Remove Rowmill's own tables, their history, and the triggers that use them. Your rows stay as they are."""
    dialect = op.get_context().dialect.name
    if dialect == "postgresql":
        op.execute(f"DROP SCHEMA IF EXISTS {schema.SCHEMA} CASCADE")
        return
    for table in reversed(schema.own_tables(dialect).metadata.sorted_tables):
        op.execute(f"DROP TABLE IF EXISTS {table.name}")


def fill(op: Operations, *, name: str, schema: str | None, sets: str, where: str, walk: bool) -> None:
    """Set the columns that a queue needs on existing rows. On PostgreSQL, in batches that commit one by one."""
    wanted = fills.Fill(name, schema, sets, where, walk)
    context = op.get_context()
    if context.as_sql:
        table = sa.Table(name, sa.MetaData(), schema=schema)
        op.execute(expressions.as_text(wanted.statement(context.dialect.identifier_preparer.format_table(table))))
    elif context.dialect.name == "postgresql":
        with context.autocommit_block():
            for _ in fills.run(op.get_bind(), wanted):
                pass
    else:
        for _ in fills.run(op.get_bind(), wanted):
            pass
