"""A worker that starts imports only what its application uses."""

import subprocess
import sys

import pytest

from rowmill.cli.commands import MODULES, load

CAPABILITIES = ("limits", "operator", "outbox", "reconcile")
UNUSED = (
    "alembic", "pydantic", "rich", "rowmill.operator", "rowmill.store.orm_rows", "rowmill.worker.settling",
    "sqlalchemy.ext.asyncio", "sqlalchemy.orm", "tomllib",
)  # fmt: skip
"""What a worker on a Table does not need, and would hold in memory for as long as it runs."""
UNUSED_ON = {
    "postgresql": (*UNUSED, "aiosqlite", "psycopg", "sqlalchemy.dialects.sqlite", "sqlite3"),
    "sqlite": (*UNUSED, "asyncpg", "psycopg"),
}
WORKER = """
import asyncio, sys
from types import ModuleType
import sqlalchemy as sa, rowmill as rm
from rowmill.cli.main import run

moment = sa.DateTime(timezone=True)
table = sa.Table(
    "job", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("state", sa.Text), sa.Column("attempts", sa.Integer), sa.Column("available_at", moment),
    sa.Column("lease", sa.BigInteger), sa.Column("leased_until", moment),
    sa.Column("error", sa.Text), sa.Column("finished_at", moment),
)
app = sys.modules["app"] = ModuleType("app")
app.mill = rm.Mill(URL)
queue = app.mill.queue(table)
sessions = []

@queue.handler()
async def handle(lease):
    if lease.key == 2:
        async with lease.settling() as session:
            found = await session.scalar(sa.select(sa.func.max(table.c.id)))
            sessions.append((type(session).__mro__[1].__module__, found))

def work_on(key):
    asyncio.run(app.mill.run(lambda connection: connection.execute(queue.insert([{"id": key}])).close()))
    return run(["drain", "app:mill", "--json"])

asyncio.run(app.mill.migrate(tables=True))
print("code", work_on(1), [name for name in UNUSED if name in sys.modules])
print("code", work_on(2), sessions)
"""


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_a_plain_queue_imports_no_capability() -> None:
    out = run(
        "import sys, sqlalchemy as sa, rowmill as rm\n"
        "table = sa.Table('job', sa.MetaData(), sa.Column('id', sa.Integer, primary_key=True))\n"
        "mill = rm.Mill('sqlite:///unused.db')\n"
        f"print([name for name in {CAPABILITIES!r} if f'rowmill.{{name}}' in sys.modules])"
    )

    assert out.strip() == "[]"


def test_rowmill_by_itself_imports_no_sqlalchemy() -> None:
    """A process that raises its errors and talks to no database, such as one that reads documents, is small."""
    assert run("import sys, rowmill; print('sqlalchemy' in sys.modules)").strip() == "False"


def test_no_tool_of_others_is_imported_with_rowmill() -> None:
    out = run(
        "import sys, rowmill, rowmill.integrations, rowmill.cli.main\n"
        "print([name for name in ('alembic', 'celery', 'dagster') if name in sys.modules])"
    )

    assert out.strip() == "[]"


def test_a_submodule_is_an_attribute_of_the_package() -> None:
    out = run(
        "import rowmill as rm\n"
        "print(*(found.__name__ for found in (rm.limits.Rate, rm.outbox.Event, rm.operator.Why, rm.errors.LeaseLost)))"
    )

    assert out.split() == ["Rate", "Event", "Why", "LeaseLost"]


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    out = run("import rowmill\ntry:\n    rowmill.nonsense\nexcept AttributeError as error:\n    print(error)")

    assert "nonsense" in out


@pytest.mark.parametrize("module", MODULES)
def test_a_module_of_commands_adds_those_that_it_is_listed_with(module: str) -> None:
    assert tuple(load(module, rich=False)) == MODULES[module]


def test_the_command_of_a_worker_does_not_import_the_other_commands() -> None:
    out = run(
        "import sys\n"
        "from rowmill.cli.main import run\n"
        "run(['work', '--help'])\n"
        "print([name for name in ('adopt', 'doctor', 'reconcile', 'rich') if f'rowmill.cli.{name}' in sys.modules])"
    )

    assert out.splitlines()[-1] == "[]"


def test_a_worker_on_a_table_imports_neither_the_orm_nor_the_other_database(database_url: str) -> None:
    database = "sqlite" if database_url.startswith("sqlite") else "postgresql"
    out = run(f"URL, UNUSED = {database_url!r}, {UNUSED_ON[database]!r}\n{WORKER}")

    plain, with_block = (line for line in out.splitlines() if line.startswith("code"))
    assert plain == "code 0 []"
    assert with_block == "code 0 [('sqlalchemy.ext.asyncio.session', 2)]", "the first block loads the session"
