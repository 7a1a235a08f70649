"""What a table lacks to be a queue, as steps of a migration in the order in which they are made."""

from collections.abc import Mapping

from sqlalchemy import Connection

from rowmill.model.lifecycle import Kind
from rowmill.store import indexes, schema
from rowmill.store.adopt import rows
from rowmill.store.adopt.change import Change, Part, Plan
from rowmill.store.adopt.look import Look
from rowmill.store.adopt.plan_columns import UNFILLED, add_columns, filled, loosen_columns, missing_columns, not_null
from rowmill.store.adopt.plan_indexes import make_indexes
from rowmill.store.adopt.plan_words import allow_words
from rowmill.store.key_facts import key_problem
from rowmill.store.terms import Terms


def make_plan(
    connection: Connection, terms: Terms, look: Look, where: Mapping[Kind, str] | None = None, *, declared: bool = False
) -> Plan:
    """Compare what the queue needs with what the database has. `where` says which rows are in which state, for a table
    that gets its state column only now. The key of a `declared` queue need not be the primary key of its
    table."""
    plan = Plan()
    if not look.is_table:
        plan.obstacles.append(f"{look.table.name} is a view or a foreign table: adopt the table behind it")
        return plan
    if not look.table.primary_key.columns and not declared:
        plan.obstacles.append(
            f"table {look.table.name} has no primary key: a row could not be told from another. Give it one, as in: "
            f"ALTER TABLE {terms.table} ADD COLUMN id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
        )
        return plan
    problem = key_problem(connection, terms)
    if problem is not None:
        plan.obstacles.append(f"{problem.what}. Mend it: {problem.fix}")
        return plan
    postgres = connection.dialect.name == "postgresql"
    plan.changes += allow_words(plan, terms, look, postgres)
    missing = missing_columns(plan, terms, look)
    plan.changes += add_columns(terms, look, missing, postgres)
    plan.changes += loosen_columns(plan, terms, look, postgres)
    if look.own_version != schema.VERSION:
        own = schema.statements(connection.dialect, look.own_version or 0)
        plan.changes.append(Change(Part.OWN, _own(look.own_version), tuple(own)))
    plan.changes += make_indexes(connection, plan, terms, look)
    if postgres and not indexes.has_wake_trigger(connection, terms):
        plan.changes.append(
            Change(
                Part.TRIGGER,
                "no trigger wakes a sleeping worker when rows come in",
                tuple(indexes.wake_trigger(terms)),
                (f"DROP TRIGGER IF EXISTS rowmill_wake ON {terms.table}",),
            )
        )
    state = look.table.columns.get(terms.queue.columns["state"].name)
    unfilled = not look.empty and (state is None or state.comment == UNFILLED)
    for what, fill in rows.fills(connection, terms, look, missing, where or {}, unfilled=unfilled):
        plan.changes.append(Change(Part.ROWS, what, (fill.statement(terms.table),), fill=fill))
    if unfilled and postgres:
        if not terms.queue.columns["state"].nullable:
            plan.changes.append(not_null(terms, terms.state))
        plan.changes.append(filled(terms))
    return plan


def _own(found: int | None) -> str:
    if found is None:
        return "Rowmill's own tables are not there yet"
    return f"Rowmill's own tables are at version {found}, this code needs {schema.VERSION}"
