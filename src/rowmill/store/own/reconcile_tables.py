"""The tables of reconciliations: one row per run, and one per finding."""

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Table

from rowmill.store.expressions import partial_index

MakeTable = Callable[..., Table]


def reconciliation_table(table: MakeTable, dialect: str, prefix: str, serial: Any, moment: Any) -> Table:
    """Return the table of runs. A run that has not ended holds the lease: there is at most one of each name."""
    return table(
        "reconciliation",
        Column("id", serial, primary_key=True, autoincrement=True),
        Column("name", sa.Text, nullable=False),
        Column("host", sa.Text, nullable=False),
        Column("pid", sa.Integer, nullable=False),
        Column("started_at", moment, nullable=False),
        Column("until", moment, nullable=False),
        Column("ended_at", moment),
        Column("outcome", sa.Text),
        Column("findings", sa.BigInteger, nullable=False, server_default="0"),
        Column("corrected", sa.BigInteger, nullable=False, server_default="0"),
        Column("remaining", sa.BigInteger, nullable=False, server_default="0"),
        Column("closed", sa.BigInteger, nullable=False, server_default="0"),
        Column("kinds", sa.JSON),
        Column("unreadable", sa.JSON),
        partial_index(dialect, f"{prefix}reconciliation_open", "name", where="ended_at IS NULL", unique=True),
        sa.Index(f"{prefix}reconciliation_name", "name", "id"),
    )  # fmt: skip


def finding_table(table: MakeTable, dialect: str, prefix: str, serial: Any, moment: Any) -> Table:
    """Return the table of findings. While one is open there is no second of its kind and key, and so no second
    correction."""
    return table(
        "finding",
        Column("id", serial, primary_key=True, autoincrement=True),
        Column("reconciliation", sa.Text, nullable=False),
        Column("kind", sa.Text, nullable=False),
        Column("key", sa.Text, nullable=False),
        Column("present", sa.Text, nullable=False),
        Column("absent", sa.Text, nullable=False),
        Column("first_run", sa.BigInteger, nullable=False),
        Column("last_run", sa.BigInteger, nullable=False),
        Column("found_at", moment, nullable=False),
        Column("seen_at", moment, nullable=False),
        Column("corrected_at", moment),
        Column("corrections", sa.Integer, nullable=False, server_default="0"),
        Column("closed_at", moment),
        partial_index(
            dialect, f"{prefix}finding_open", "reconciliation", "kind", "key", where="closed_at IS NULL", unique=True
        ),
        sa.Index(f"{prefix}finding_closed_at", "closed_at"),
    )  # fmt: skip
