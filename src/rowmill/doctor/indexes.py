"""Checks of indexes: do they exist, are they valid, and do the statements use them?"""

import json
import secrets
from collections.abc import Iterator
from typing import Any

from sqlalchemy.exc import OperationalError

from rowmill.adopt.plan import allow_words
from rowmill.adopt.steps import MigrationPlan
from rowmill.doctor.finding import AuditedQueue, DoctorFinding, FindingSeverity
from rowmill.model.lifecycle import DONE
from rowmill.model.states import Step
from rowmill.operator.statements import shapes
from rowmill.store import expressions, order_per_key
from rowmill.store.indexes import IndexState, bare_name, has_wake_trigger, index_states, queue_indexes, ready_index
from rowmill.store.postgres.session import SESSION
from rowmill.store.postgres.sql import PostgresQueueSql
from rowmill.store.sqlite import claim as sqlite_claim
from rowmill.store.sqlite import settle as sqlite_settle
from rowmill.store.sqlite.sql import SqliteQueueSql
from rowmill.store.sqlite.statements import by_index
from rowmill.store.watermark import STRETCHES, Stretch

SAID = {
    IndexState.MISSING: (FindingSeverity.ERROR, "index_missing", "is missing: every {serves} reads the whole table"),
    IndexState.INVALID: (
        FindingSeverity.ERROR,
        "index_invalid",
        "is invalid, because making it failed: it costs every write and serves no {serves}",
    ),
    IndexState.OTHER: (
        FindingSeverity.WARNING,
        "index_differs",
        "was made for other words or columns than the queue has: the {serves} may not find rows by it",
    ),
    IndexState.BUILDING: (
        FindingSeverity.INFO,
        "index_building",
        "is being made now: every {serves} is slow until then",
    ),
}


def indexes(audited: AuditedQueue) -> Iterator[DoctorFinding]:
    wanted = queue_indexes(audited.sql)
    states = index_states(audited.connection, audited.sql, wanted)
    for index in wanted:
        state = states[index.name]
        if state is not IndexState.GOOD:
            severity, code, text = SAID[state]
            fix = "wait for it" if state is IndexState.BUILDING else audited.adopt
            yield audited.finding(severity, code, f"index {bare_name(index)} {text.format(serves=index.serves)}", fix)


def words_allowed(audited: AuditedQueue) -> Iterator[DoctorFinding]:
    """Check that enum types and CHECKs allow all words that the queue writes."""
    plan = MigrationPlan()
    changes = list(allow_words(plan, audited.sql, audited.facts, audited.postgres))
    for what in [change.what for change in changes] + plan.obstacles:
        yield audited.finding(FindingSeverity.ERROR, "word_refused", what, audited.adopt)


def trigger(audited: AuditedQueue) -> Iterator[DoctorFinding]:
    if audited.postgres and not has_wake_trigger(audited.connection, audited.sql):
        yield audited.finding(
            FindingSeverity.WARNING,
            "trigger_missing",
            "no trigger wakes a sleeping worker when rows come in: they wait for its next look, up to some seconds",
            "rowmill migrate",
        )


def plans(audited: AuditedQueue) -> Iterator[DoctorFinding]:
    """Check the query plans, with the statements and settings of a worker. Skipped if indexes are missing."""
    states = index_states(audited.connection, audited.sql, queue_indexes(audited.sql))
    if not set(states.values()) <= {IndexState.GOOD, IndexState.OTHER}:
        return
    explain = _explain_postgres if audited.postgres else _explain_sqlite
    forbids = "settings of role or database (enable_indexscan), collations, row security"
    fix = f"see what forbids it: {forbids if audited.postgres else 'collations of the columns'}"
    if IndexState.OTHER in states.values():
        fix = audited.adopt
    for step in audited.sql.queue.steps:
        for what, statement, served_by in _statements(audited, step):
            reason = explain(audited, statement, served_by)
            if reason is not None:
                yield audited.finding(
                    FindingSeverity.ERROR,
                    "index_unreachable",
                    f"the {what} of stage {step.name} is not served by {' or '.join(served_by) or 'the primary key'}: "
                    f"{reason}",
                    fix,
                )
                break


def _statements(audited: AuditedQueue, step: Step) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield (name, statement, indexes of which the plan must use one; empty for the primary key)."""
    sql = audited.sql
    ready = (bare_name(ready_index(sql, step)),)
    if isinstance(sql, PostgresQueueSql):
        from rowmill.store.postgres.claim import claim_in_order, claim_statement  # asyncpg comes with an extra
        from rowmill.store.postgres.settle import settle_statement

        if sql.queue.per is not None:
            yield "claim", claim_in_order(sql, step, order_per_key.oldest_free), ready
        else:
            for _, shape in shapes(sql):
                yield "claim", claim_statement(sql, step, shape), ready
        yield "settling", settle_statement(sql, step, DONE, ()), ()
    elif isinstance(sql, SqliteQueueSql):
        if sql.queue.per is not None:
            claims = [sqlite_claim.claim_of(sql, step, order_per_key.oldest_free(sql, step, "?2"))]
        else:
            claims = [sqlite_claim.claim_statement(sql, step, stretch) for stretch in _stretches(audited)]
        for claim in claims:
            yield "claim", by_index(sql, step, claim), ready
        yield "settling", sqlite_settle.settle_statement(sql, step, DONE, ()), ()


def _stretches(audited: AuditedQueue) -> list[Stretch]:
    """Return the parts of the claim order to explain. If available_at is NOT NULL, the part for rows without a time is
    left out: on SQLite its plan shows a sort that never runs."""
    column = audited.facts.table.columns[audited.sql.queue.columns["available_at"].name]
    return [stretch for stretch in STRETCHES if column.nullable or stretch is not Stretch.AT_ONCE]


def _explain_postgres(audited: AuditedQueue, statement: str, served_by: tuple[str, ...]) -> str | None:
    """Return why no index serves the statement under a generic plan, which a worker's statements get; None if one
    does."""
    connection = audited.connection
    name_of_plan = f"rowmill_doctor_{secrets.token_hex(8)}"
    places = max(map(int, expressions.placeholders(statement)), default=0)
    with connection.begin_nested() as trial:
        for name, value in (*SESSION.items(), ("plan_cache_mode", "force_generic_plan")):
            if name.startswith(("enable_", "jit", "plan_")):
                expressions.run(connection, f"SET LOCAL {name} = {value}")
        expressions.run(connection, f"PREPARE {name_of_plan} AS {statement}")
        nothing = f"({', '.join(['NULL'] * places)})" if places else ""
        plan: Any = expressions.run(connection, f"EXPLAIN (FORMAT JSON) EXECUTE {name_of_plan}{nothing}").scalar()
        expressions.run(connection, f"DEALLOCATE {name_of_plan}")
        trial.rollback()
    nodes = list(_nodes((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]))
    table = audited.facts.table.name
    if any(node["Node Type"] == "Seq Scan" and node.get("Relation Name") == table for node in nodes):
        return "it reads the whole table"
    used = {str(node.get("Index Name")) for node in nodes if "Index Name" in node}
    if served_by and not audited.facts.partitioned and not used & set(served_by):
        return "another index is used" if used else "no index is used"
    if any("Sort" in node["Node Type"] and not _is_small(node) for node in nodes):
        return "rows are sorted for each claim"
    return None


def _is_small(sort: dict[str, Any]) -> bool:
    """Return whether a sort is harmless: of the few rows that a LIMIT let through, as in claims in order, or of none.
    From version 17 on, the planner knows that a NOT NULL column has no NULLs."""
    nothing = all(node.get("One-Time Filter") == "false" for node in sort.get("Plans", ()))
    return nothing or any(node["Node Type"] == "Limit" for node in _nodes(sort))


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


def _explain_sqlite(audited: AuditedQueue, statement: str, served_by: tuple[str, ...]) -> str | None:
    places = expressions.placeholders(statement)
    numbers = [int(place) for place in places if place.isdigit()]
    given: Any = (0,) * max(numbers) if numbers else dict.fromkeys(places, 0)
    try:
        rows = audited.connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", given)
    except OperationalError:
        return "it can't be used"
    steps = [(row[1], str(row[-1])) for row in rows]
    details = [detail for _, detail in steps]
    if served_by and not any(name in detail for name in served_by for detail in details):
        return "no index is used"
    if any(detail.startswith("SCAN") and "INDEX" not in detail and _is_table(audited, detail) for detail in details):
        return "it reads the whole table"
    # Beside a search of the table itself: claims in order sort the few rows that such a search has found.
    searches = {parent for parent, detail in steps if detail.startswith(("SEARCH", "SCAN")) and " INDEX " in detail}
    if any("TEMP B-TREE FOR ORDER BY" in detail and parent in searches for parent, detail in steps):
        return "rows are sorted for each claim"
    return None


def _is_table(audited: AuditedQueue, detail: str) -> bool:
    return detail.removeprefix("SCAN ").startswith(audited.facts.table.name)
