"""The hot statements as files, so that a change of SQL is seen in review.

    ROWMILL_WRITE_GOLDEN=1 python -m pytest tests/plans/test_golden.py

writes them anew.
"""

import os
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import Column, MetaData, Table

from rowmill import Mill, Order, OrderPerKey, Queue, Stage
from rowmill.operator.statements import TOKEN, hot_statements, pretty

GOLDEN = Path(__file__).parent / "golden"
URLS = {"postgres": "postgresql://nobody@localhost/nowhere", "sqlite": "sqlite:///nowhere.db"}
QUEUES: dict[str, dict[str, Any]] = {
    "plain": {},
    "priority": {"order": Order(priority="rank")},
    "order_per_key": {"order_per_key": OrderPerKey(per="account")},
    "stages": {"stages": [Stage("link", "new", "linking"), Stage("save", "linked", "saving")]},
}


def queue_of(store: str, options: dict[str, Any]) -> Queue[Any]:
    moment = sa.DateTime(timezone=True)
    table = Table(
        "job",
        MetaData(),
        Column("id", sa.BigInteger, primary_key=True),
        Column("account", sa.Integer),
        Column("rank", sa.SmallInteger, nullable=False),
        Column("state", sa.Text, nullable=False),
        Column("attempts", sa.Integer, nullable=False),
        Column("available_at", moment),
        Column("lease", sa.BigInteger),
        Column("leased_until", moment),
        Column("error", sa.Text),
        Column("finished_at", moment),
        Column("payload", sa.Text),
    )
    return Mill(URLS[store]).queue(table, **options)


def rendered(queue: Queue[Any]) -> str:
    found = hot_statements(queue.mill.store.sql(queue))
    return "\n\n".join(
        f"-- {one.name}, stage {one.stage}; served by {one.served_by}\n{pretty(one.text)};" for one in found
    )


@pytest.mark.parametrize("name", QUEUES)
@pytest.mark.parametrize("store", URLS)
def test_the_statements_are_those_of_the_file(store: str, name: str) -> None:
    text, file = rendered(queue_of(store, QUEUES[name])) + "\n", GOLDEN / f"{store}_{name}.sql"
    if os.environ.get("ROWMILL_WRITE_GOLDEN"):
        file.write_text(text)
    assert text == file.read_text(), f"the SQL changed. If it is meant to, write {file.name} anew: see above"


@pytest.mark.parametrize("name", QUEUES)
@pytest.mark.parametrize("store", URLS)
def test_the_layout_changes_only_white_space(store: str, name: str) -> None:
    queue = queue_of(store, QUEUES[name])
    for one in hot_statements(queue.mill.store.sql(queue)):
        assert words(pretty(one.text)) == words(one.text)


def words(text: str) -> list[str]:
    """The tokens of a statement. Those of several words stand with one space between them."""
    return [" ".join(token.split()) for token in TOKEN.findall(" ".join(text.split())) if not token.isspace()]


def test_literals_are_left_alone() -> None:
    text = "SELECT 'a  FROM b, (SELECT', \"odd AND name\" FROM t WHERE x = 'it''s' AND y"

    assert pretty(text) == "SELECT 'a  FROM b, (SELECT', \"odd AND name\"\nFROM t\nWHERE x = 'it''s'\n  AND y"
