"""The tables of schedules and their ticks. A tick is a row, and the table of ticks is a queue.

The indexes are those that a queue on this table needs, under the names that it gives them: a test holds them together.
"""

from collections.abc import Callable

import sqlalchemy as sa
from sqlalchemy import Column, Table

from rowmill.model.queue import Columns, OrderPerKey
from rowmill.model.states import States
from rowmill.store.expressions import partial_index

QUEUE = "rowmill_tick"
"""The name of the queue."""
COLUMNS = Columns(started_at="started_at")
STATES = States(waiting="waiting", cancelled="cancelled")
IN_ORDER = OrderPerKey(per="lane", by=("due_at",), on_dead="skip")

READY = "state IN ('ready', 'waiting')"
RUNNING = "state IN ('running')"
UNFINISHED = "state IN ('ready', 'waiting', 'running')"
FINISHED = "state IN ('done', 'dead', 'cancelled')"


def schedule_table(table: Callable[..., Table]) -> Table:
    """Return the table with one row per schedule that some worker declared."""
    moment = sa.DateTime(timezone=True)
    return table(
        "schedule",
        Column("name", sa.Text, primary_key=True),
        Column("expression", sa.Text, nullable=False),
        Column("zone", sa.Text, nullable=False),
        Column("missed", sa.Text, nullable=False),
        Column("overlap", sa.Boolean, nullable=False),
        Column("declared_at", moment, nullable=False),
        # The last time that a worker said: so it is declared here, too.
        Column("kept_at", moment, nullable=False),
        # Every tick up to this time was made, or passed over.
        Column("made_to", moment, nullable=False),
        Column("paused_since", moment),
    )


def tick_table(table: Callable[..., Table], dialect: str) -> Table:
    """Return the table with one row per tick, with the columns of a queue."""
    moment = sa.DateTime(timezone=True)
    made = table(
        "tick",
        Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True, autoincrement=True),
        Column("schedule", sa.Text, nullable=False),
        Column("due_at", moment, nullable=False),
        # Ticks of one lane run one after another; without a lane they wait for nobody.
        Column("lane", sa.Text),
        Column("manual", sa.Boolean, nullable=False),
        Column("state", sa.Text, nullable=False, server_default="ready"),
        Column("attempts", sa.Integer, nullable=False, server_default="0"),
        Column("available_at", moment, nullable=False),
        Column("lease", sa.BigInteger),
        Column("leased_until", moment),
        Column("error", sa.Text),
        Column("started_at", moment),
        Column("finished_at", moment),
    )
    prefix = f"rowmill_{made.name}"
    first = " NULLS FIRST" if dialect == "postgresql" else ""
    sa.UniqueConstraint(made.c.schedule, made.c.due_at, name=f"{made.name}_once")
    for name, columns, rows in (
        (f"{prefix}_work_ready", (sa.text(f"available_at{first}"), made.c.id), READY),
        (f"{prefix}_running", (made.c.leased_until,), RUNNING),
        (f"{prefix}_in_order", (made.c.lane, sa.text(f"({RUNNING}) DESC"), made.c.due_at, made.c.id), UNFINISHED),
        (f"{made.name}_finished", (made.c.finished_at,), FINISHED),
    ):
        partial_index(dialect, name, *columns, where=rows)
    return made
