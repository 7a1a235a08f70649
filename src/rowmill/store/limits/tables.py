"""The tables of limits. Times are seconds since 1970, so that both databases add and compare them alike."""

from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import Column, Connection, MetaData, Table
from sqlalchemy.dialects.postgresql import ARRAY

from rowmill.store.expressions import partial_index
from rowmill.store.limits.functions import FUNCTIONS


class LimitTables(NamedTuple):
    """The tables of limits: a row per limit and key, whose lock guards every decision; a ticket per call that holds a
    slot or a part of a budget; and what was spent, per period."""

    limiter: Table
    ticket: Table
    spending: Table


def limit_tables(metadata: MetaData, dialect: str, prefix: str) -> LimitTables:
    counts = ARRAY(sa.BigInteger).with_variant(sa.Text(), "sqlite")
    empty = "{}" if metadata.schema else "[]"

    def number(name: str, kind: type[sa.types.TypeEngine[Any]] = sa.Float) -> "Column[Any]":
        return Column(name, kind, nullable=False, server_default="0")

    def part(last: str, postgres: str, sqlite: str, *, name: str = "", unique: bool = False) -> sa.Index:
        where = postgres if dialect == "postgresql" else sqlite
        return partial_index(dialect, f"{prefix}ticket_{name or last}", "name", "key", last, where=where, unique=unique)

    return LimitTables(
        limiter=Table(
            prefix + "limiter",
            metadata,
            Column("name", sa.Text, primary_key=True),
            Column("key", sa.Text, primary_key=True),
            number("seen"),
            number("width"),
            number("head", sa.BigInteger),
            Column("counts", counts, nullable=False, server_default=empty),
            number("turn"),
            number("later"),
            number("later_from"),
            number("held"),
            Column("off", sa.Boolean, nullable=False, server_default=sa.false()),
            number("parked_until"),
            number("failures", sa.Integer),
            number("pause"),
            number("open_until"),
            number("probe_until"),
        ),
        ticket=Table(
            prefix + "ticket",
            metadata,
            Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
            Column("name", sa.Text, nullable=False),
            Column("key", sa.Text, nullable=False),
            Column("slot", sa.Integer),
            Column("span", sa.Text),
            Column("amount", sa.BigInteger, nullable=False),
            Column("until", sa.Float, nullable=False),
            Column("done", sa.Boolean, nullable=False, server_default=sa.false()),
            # A slot can't be held twice, whatever the code above believes. Each of these is of a part: tickets of ended
            # calls stay for a while, and no plan may have a way over them to those that are good.
            part("slot", "slot IS NOT NULL", "slot IS NOT NULL", unique=True),
            part("until", "NOT done", "done = 0"),
            part("until", "done", "done = 1", name="ended"),
        ),
        spending=Table(
            prefix + "spending",
            metadata,
            Column("name", sa.Text, primary_key=True),
            Column("key", sa.Text, primary_key=True),
            Column("span", sa.Text, primary_key=True),
            Column("used", sa.BigInteger, nullable=False),
            number("noted_at"),
        ),
    )


def declaration_table(metadata: MetaData, prefix: str) -> Table:
    """Return the table of declarations: a row per limit and way to declare it, with the time when a process last said
    so."""
    return Table(
        prefix + "limit_declaration",
        metadata,
        Column("name", sa.Text, primary_key=True),
        Column("declared", sa.Text, primary_key=True),
        Column("seen", sa.Float, nullable=False),
    )


def make(connection: Connection, tables: LimitTables) -> None:
    """Create the tables of limits. A step of the migrations."""
    tables.limiter.metadata.create_all(connection, tables=tables)
    if connection.dialect.name == "postgresql":
        for function in FUNCTIONS:
            connection.execute(sa.text(function.replace(":", r"\:")))
