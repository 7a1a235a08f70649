"""A worker that starts imports only what its application uses."""

import subprocess
import sys

import pytest

from rowmill.cli.commands import MODULES, load

CAPABILITIES = ("limits", "operator", "outbox", "reconcile")
UNUSED = ("aiosqlite", "alembic", "pydantic", "rich", "sqlite3", "tomllib")
"""What a worker on PostgreSQL does not need, and would hold in memory for as long as it runs."""


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


def test_no_tool_of_others_is_imported_with_rowmill() -> None:
    out = run(
        "import sys, rowmill, rowmill.integrations, rowmill.cli.main\n"
        "print([name for name in ('alembic', 'dagster') if name in sys.modules])"
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


def test_a_worker_on_postgresql_imports_neither_typers_validation_nor_sqlite() -> None:
    out = run(
        "import sys\n"
        "from types import ModuleType\n"
        "import sqlalchemy as sa, rowmill as rm\n"
        "app = sys.modules['app'] = ModuleType('app')\n"
        "app.mill = rm.Mill('postgresql://nobody@127.0.0.1:1/none')\n"
        "from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column\n"
        "class Base(DeclarativeBase): pass\n"
        "class Job(rm.QueueMixin, Base):\n"
        "    __tablename__ = 'job'\n"
        "    id: Mapped[int] = mapped_column(primary_key=True)\n"
        "@app.mill.queue(Job).handler()\n"
        "async def handle(lease): pass\n"
        "from rowmill.cli.main import run\n"
        "code = run(['work', 'app:mill', '--grace', '1'])\n"
        f"print(code, [name for name in {UNUSED!r} if name in sys.modules])"
    )

    assert out.splitlines()[-1] == "3 []"
