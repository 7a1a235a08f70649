"""The statements that a worker sends all the time, rendered for people who read or EXPLAIN them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import sqlalchemy as sa

from rowmill.model.lifecycle import AGAIN, BURY, DIE, DONE, RELEASE, RESCUE
from rowmill.model.states import Step
from rowmill.store import order_per_key, rescue
from rowmill.store.indexes import bare_name, ready_index
from rowmill.store.postgres.sql import PostgresQueueSql
from rowmill.store.queue_sql import QueueSql
from rowmill.store.sqlite import claim as sqlite_claim
from rowmill.store.sqlite import settle as sqlite_settle
from rowmill.store.sqlite import sql as sqlite_sql
from rowmill.store.sqlite.sql import SqliteQueueSql
from rowmill.store.sqlite.statements import by_index
from rowmill.store.watermark import STRETCHES, Shape, Watermark

PRIMARY_KEY = "the primary key"
RUNNING = "the partial index on running rows"
SETTLED = (("done", DONE), ("retry", AGAIN), ("dead", DIE), ("release", RELEASE))
MOST = 500
"""The limit of rows in the example of a sweep."""


@dataclass(frozen=True, slots=True)
class HotStatement:
    """One statement of one stage, with the placeholders of its database."""

    name: str
    stage: str
    served_by: str
    text: str


def hot_statements(sql: QueueSql) -> list[HotStatement]:
    """Return the claims, settles, renewals and rescues of a queue, stage by stage."""
    return [
        HotStatement(name, step.name, served_by, text)
        for step in sql.queue.steps
        for name, served_by, text in (*_of_dialect(sql, step), *_rescues(sql, step))
    ]


def _of_dialect(sql: QueueSql, step: Step) -> Iterator[tuple[str, str, str]]:
    if isinstance(sql, PostgresQueueSql):
        return _on_postgres(sql, step)
    assert isinstance(sql, SqliteQueueSql)
    return _on_sqlite(sql, step)


def _on_postgres(sql: PostgresQueueSql, step: Step) -> Iterator[tuple[str, str, str]]:
    from rowmill.store.postgres import claim, renew, settle  # asyncpg comes with an extra

    ready, weighed = bare_name(ready_index(sql, step)), bool(sql.long)
    if sql.queue.per is None:
        for name, shape in shapes(sql):
            yield f"claim {name}", ready, claim.claim_statement(sql, step, shape, weighed=weighed)
    else:
        for find in order_per_key.finders(sql):
            text = claim.claim_in_order(sql, step, find, weighed=weighed)
            yield f"claim {find.__name__.replace('_', ' ')}", ready, text
    for name, move in SETTLED:
        yield f"settle {name}", PRIMARY_KEY, settle.settle_statement(sql, step, move, ())
    yield "settle one", PRIMARY_KEY, settle.settle_statement(sql, step, DONE, (), one=True)
    skipping = settle.settle_statement(sql, step, DONE, (), skip_locked=True)
    yield "settle around locked rows", PRIMARY_KEY, skipping
    yield "renew", PRIMARY_KEY, renew.renew_statement(sql)


def shapes(sql: QueueSql) -> list[tuple[str, Shape]]:
    """Return two shapes of a claim: from the head of the index, and from a watermark."""
    mark = Watermark(by_level=sql.queue.priority is not None)
    mark.start([None], 0.0)
    onward = tuple((stretch, True) for stretch, _ in mark.shape)
    return [("from the start", mark.shape), ("from a watermark", onward)]


def _on_sqlite(sql: SqliteQueueSql, step: Step) -> Iterator[tuple[str, str, str]]:
    ready = bare_name(ready_index(sql, step))
    if sql.queue.per is None:
        claims = [
            (stretch.name.lower().replace("_", " "), sqlite_claim.claim_statement(sql, step, stretch))
            for stretch in STRETCHES
        ]
    else:
        claims = [
            (
                find.__name__.replace("_", " "),
                sqlite_claim.claim_of(sql, step, find(sql, step, "?2", order_per_key.Start())),
            )
            for find in order_per_key.finders(sql)
        ]
    for name, text in claims:
        yield f"claim {name}", ready, by_index(sql, step, text)
    for name, move in SETTLED:
        yield f"settle {name}", PRIMARY_KEY, sqlite_settle.settle_statement(sql, step, move, ())
    yield "renew", PRIMARY_KEY, sqlite_sql.renew_statement(sql)


def _rescues(sql: QueueSql, step: Step) -> Iterator[tuple[str, str, str]]:
    """Yield the statements of a rescue, which are SQLAlchemy Core and the same for both databases."""
    yield "rescue: find expired leases", RUNNING, _compiled(sql, rescue.expired_rows(sql, step, MOST))
    nobody = [tuple(None for _ in sql.queue.key)]
    for name, move in (("give back", RESCUE), ("bury", BURY)):
        update = rescue.rescued_rows(sql, step, move, nobody, rescue.guard_of(sql, step, move))
        yield f"rescue: {name}", PRIMARY_KEY, _compiled(sql, update)


def _compiled(sql: QueueSql, statement: "sa.ClauseElement") -> str:
    compiled = statement.compile(dialect=sql.dialect, compile_kwargs={"render_postcompile": True})
    return " ".join(str(compiled).split())


TOKEN = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*"
    | \b(?:UNION\ ALL | ORDER\ BY | GROUP\ BY | FOR\ UPDATE | FOR\ NO\ KEY\ UPDATE | INSERT\ INTO)\b
    | [A-Za-z_][\w$]* | \d[\w.]* | \s+ | .""",
    re.VERBOSE | re.DOTALL,
)
CLAUSES = frozenset(
    (
        "SELECT", "FROM", "WHERE", "SET", "RETURNING", "LIMIT", "VALUES", "UPDATE",
        "UNION ALL", "ORDER BY", "GROUP BY", "FOR UPDATE", "FOR NO KEY UPDATE", "INSERT INTO",
    )
)  # fmt: skip
QUERY = re.compile(r"(SELECT|UPDATE|INSERT|WITH|VALUES)\b")


@dataclass(slots=True)
class _Level:
    """The contents of a pair of parentheses, or what is outside of all of them."""

    query: bool
    clause: str = ""
    cases: int = 0


def pretty(text: str) -> str:
    """Lay a statement out over lines: clauses, conditions and assignments begin lines, sub-queries are indented. Only
    white space changes."""
    out, levels = "", [_Level(query=True)]

    def new_line(more: int = 0) -> str:
        return out.rstrip() + "\n" + "  " * (sum(level.query for level in levels) - 1 + more) if out.strip() else ""

    for match in TOKEN.finditer(text):
        word, level = match[0], levels[-1]
        in_query = level.query and not level.cases
        if word.isspace():
            out += "" if not out or out[-1].isspace() else " "
            continue
        if word == "(":
            levels.append(_Level(query=QUERY.match(text, match.end()) is not None))
            out += word
            out = new_line() if levels[-1].query else out
            continue
        if word == ")":
            levels.pop()
            out = new_line() if level.query else out
        elif in_query and word in CLAUSES:
            out, level.clause = new_line(), word
        elif in_query and word == "AND" and level.clause == "WHERE":
            out = new_line(1)
        elif word in ("CASE", "END"):
            level.cases += 1 if word == "CASE" else -1
        out += word
        if in_query and word == "," and level.clause == "SET":
            out = new_line(1)
    return out
