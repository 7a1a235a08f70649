"""Names, words and values that would do harm in a statement which is built from them."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, MetaData, Table

from rowmill import Columns, Mill, Order, OrderPerKey, Queue, Retry, Stage, States, fixed
from tests.conformance.fleet import MOMENT

BAD = {
    "quotes": "x'\"; DROP TABLE bystander; --",
    "marks": "%s %% %(x) %1$s a:b :x ::t ?1 ?",
    "dollars": "$1 $10 $$ $rowmill$ \\' \\\\ end\\",
    "lines": "One\nTwo\r\n/* -- */ ; # {} `b`",
    "call": "(select pg_sleep(9)) @x",
}
"""Short enough for a name with a few letters beside it. Several kinds in one: each costs a database."""

ROLES = ("state", "attempts", "available_at", "lease", "leased_until", "error", "finished_at", "error_code",
         "created_at", "updated_at", "started_at")  # fmt: skip


def named(bad: str) -> dict[str, str]:
    """A hostile name for every role, each another."""
    return {role: f"{bad}{place}" for place, role in enumerate(ROLES)}


def bad_table(bad: str, *more: Any, schema: bool = True) -> Table:
    """A table in which every name is hostile: its schema, itself, its key of text, its columns."""
    names = named(bad)
    times = ("available_at", "leased_until", "finished_at", "created_at", "updated_at", "started_at")
    return Table(
        f"t{bad}",
        MetaData(),
        Column(f"k{bad}", sa.Text, primary_key=True),
        Column(f"p{bad}", sa.Text),
        Column(f"o{bad}", sa.Integer, nullable=False, server_default="0"),
        Column(f"r{bad}", sa.Integer),
        Column(f"j{bad}", sa.JSON),
        Column(f"v{bad}", sa.Text),
        Column(names["state"], sa.Text, nullable=False),
        Column(names["attempts"], sa.Integer, nullable=False, server_default="0"),
        Column(names["lease"], sa.BigInteger),
        Column(names["error"], sa.Text),
        Column(names["error_code"], sa.Text),
        *(Column(names[role], MOMENT) for role in times),
        *more,
        schema=f"s{bad}" if schema else None,
    )


def bad_queue(mill: Mill, bad: str, *, in_order: bool = False, table: Table | None = None) -> Queue[Any]:
    """A queue of two stages on that table, whose words, stages and own name are hostile too."""
    return mill.queue(
        bad_table(bad) if table is None else table,
        name=f"q{bad}",
        columns=Columns(**named(bad)),
        states=States(done=f"done{bad}", dead=f"dead{bad}", cancelled=f"cancelled{bad}"),
        stages=[
            Stage(f"one{bad}", f"ready{bad}", (f"running{bad}", f"busy{bad}"), f"waiting{bad}"),
            Stage(f"two{bad}", f"ready two{bad}", f"running two{bad}"),
        ],
        retry=Retry(attempts=2, backoff=fixed(600)),
        order=Order(by=(f"o{bad}",)) if in_order else Order(priority=f"r{bad}", by=(f"o{bad}",)),
        order_per_key=OrderPerKey(per=f"p{bad}", by=(f"o{bad}",)) if in_order else None,
    )


def bad_row(bad: str, number: int = 0) -> dict[str, Any]:
    """A row whose every value is hostile."""
    return {
        f"k{bad}": f"{bad}{number}",
        f"p{bad}": bad,
        f"o{bad}": number,
        f"j{bad}": {bad: [bad, {"'": '"'}]},
        f"v{bad}": f"{bad} {number}",
    }
