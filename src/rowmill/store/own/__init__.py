"""Rowmill's own tables: schema, migrations, workers, history, privileges."""

SCHEMA = "rowmill"
"""The schema of Rowmill's own tables on PostgreSQL."""
