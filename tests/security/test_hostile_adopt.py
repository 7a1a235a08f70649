"""`rowmill adopt` on a table with hostile names: what it prints, writes and applies does what it says, and no more."""

import ast
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy import Column, Connection, MetaData, Table

from rowmill import Mill
from rowmill.adopt import Adoption, AdoptOptions, carry_out, examine_table
from rowmill.adopt.revision import RevisionPlace, as_revision, as_sql
from rowmill.model.lifecycle import StateKind
from tests.security.hostile import BAD

pytestmark = pytest.mark.empty_database

each_bad = pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
with_states = pytest.mark.parametrize("with_state", [True, False], ids=["with a state", "without"])


def make(connection: Connection, bad: str, *, with_state: bool) -> None:
    """The team's own table with two rows, and a bystander."""
    state = (
        [Column(f"{bad} status", sa.Text), sa.CheckConstraint(sa.text("1 = 1"), name=f"c{bad}")] if with_state else []
    )
    table = Table(f"t{bad}", MetaData(), Column(f"k{bad}", sa.Text, primary_key=True), *state)
    table.create(connection)
    words = [f"ready{bad}", f"done{bad}"]
    for word in words:
        values = {f"k{bad}": f"{bad}{word}"} | ({f"{bad} status": word} if with_state else {})
        connection.execute(sa.insert(table).values(values))
    connection.exec_driver_sql("CREATE TABLE bystander (id integer)").close()


def choices_of(bad: str, *, with_state: bool) -> AdoptOptions:
    kinds = (StateKind.READY, StateKind.RUNNING, StateKind.DONE, StateKind.DEAD)
    words = {kind: (f"{kind}{bad}",) for kind in kinds}
    return AdoptOptions(state=f"{bad} status" if with_state else None, words=words)


async def looked_at(url: str, bad: str, *, with_state: bool) -> tuple[Mill, Callable[[Connection], Adoption]]:
    mill = Mill(url)
    await mill.run(lambda connection: make(connection, bad, with_state=with_state))
    choices = choices_of(bad, with_state=with_state)
    return mill, lambda connection: examine_table(connection, f"t{bad}", choices)


def what_is_there(connection: Connection, bad: str) -> tuple[set[str], list[Any]]:
    """The tables, and the states of the rows."""
    table = Table(f"t{bad}", MetaData(), autoload_with=connection)
    names = [name for name in (f"{bad} status", "state") if name in table.columns]
    found = connection.execute(sa.select(table.columns[names[0]]).order_by(*table.primary_key)).scalars()
    return set(sa.inspect(connection).get_table_names()), list(found)


@each_bad
@with_states
@pytest.mark.filterwarnings("ignore:Skipped unsupported reflection")
async def test_the_migration_is_made_and_nothing_else(database_url: str, bad: str, with_state: bool) -> None:
    mill, look = await looked_at(database_url, bad, with_state=with_state)
    async with mill.opened() as store:
        await carry_out(store, (await store.run(look)).plan)
        assert (await store.run(look)).plan.changes == []
    tables, states = await mill.run(lambda connection: what_is_there(connection, bad))
    assert {"bystander", f"t{bad}"} <= tables
    assert states == ([f"done{bad}", f"ready{bad}"] if with_state else [f"ready{bad}"] * 2)


@each_bad
@with_states
@pytest.mark.filterwarnings("ignore:Skipped unsupported reflection")
async def test_the_migration_as_it_is_printed_does_the_same(database_url: str, bad: str, with_state: bool) -> None:
    mill, look = await looked_at(database_url, bad, with_state=with_state)
    await mill.migrate()
    found = await mill.run(look)
    postgres = mill.store.dialect.name == "postgresql"
    script = as_sql(found.plan, postgres)

    if postgres:
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute(script.encode())
    else:
        sqlite = sqlite3.connect(str(mill.url.database))
        sqlite.executescript(script)
        sqlite.close()

    tables, states = await mill.run(lambda connection: what_is_there(connection, bad))
    assert {"bystander", f"t{bad}"} <= tables
    assert states == ([f"done{bad}", f"ready{bad}"] if with_state else [f"ready{bad}"] * 2)
    assert (await mill.run(look)).plan.changes == []


@pytest.mark.parametrize("bad", [*BAD.values(), '"""\nimport os\n"""', "\\", "'''", '"'])
async def test_a_revision_holds_nothing_but_its_steps(sqlite_url: str, bad: str) -> None:
    """A name out of the database must not become a line of Python that Alembic runs."""
    mill, look = await looked_at(sqlite_url, bad, with_state=False)
    found = await mill.run(look)
    text = as_revision(found.plan, found.table, RevisionPlace(Path("x.py"), "abc", None))

    top = ast.parse(text).body
    kinds = [type(node).__name__ for node in top]
    assert kinds == ["Expr", "Import", "ImportFrom", "ImportFrom", *["Assign"] * 4, "FunctionDef", "FunctionDef"]
    called = {
        ast.unparse(node.func) for function in top[-2:] for node in ast.walk(function) if isinstance(node, ast.Call)
    }
    assert called <= {"op.execute", "sa.text", "rowmill_alembic.upgrade", "rowmill_alembic.fill"}


@pytest.mark.parametrize("bad", [*BAD.values(), '"""\nimport os\n"""', "\\", "'''", '"'])
async def test_a_declaration_to_paste_names_the_table_as_it_is(sqlite_url: str, bad: str) -> None:
    mill, look = await looked_at(sqlite_url, bad, with_state=True)
    text = (await mill.run(look)).declaration or ""

    strings = {node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)}
    assert {f"t{bad}", f"{bad} status", f"ready{bad}"} <= strings
    called = {ast.unparse(node.func) for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)}
    allowed = ("rm.", "sa.")
    assert all(name.startswith(allowed) or name.split(".", 1)[-1] in ("queue", "handler") for name in called)
