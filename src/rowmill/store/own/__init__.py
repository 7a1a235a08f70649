"""Rowmill's own tables: schema, migrations, workers, history, privileges."""
