"""A real Alembic environment, made of the snippets of the guide, on both stores."""

import asyncio
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

import rowmill as rm
from rowmill.cli.main import run
from rowmill.integrations import alembic as rowmill_alembic

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "alembic.md"
ENV, OWN = re.findall(r"^```py\n(.*?)^```", GUIDE.read_text(), re.DOTALL | re.MULTILINE)

FIRST = '''
"""The table, as it was before anybody thought of a queue."""
import sqlalchemy as sa
from alembic import op

revision = "first"
down_revision = None
branch_labels = None
depends_on = None


def upgrade():
    op.create_table(
        "files",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("status", sa.String(20), nullable=False, server_default="queued"),
        sa.Column("tries", sa.Integer),
    )


def downgrade():
    op.drop_table("files")
'''
MAKO = '''
"""${message}"""
revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = ${repr(branch_labels)}
depends_on = ${repr(depends_on)}
${imports if imports else ""}

def upgrade():
    ${upgrades if upgrades else "pass"}

def downgrade():
    ${downgrades if downgrades else "pass"}
'''


class Shop:
    """An application with its Alembic environment."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        (folder / "migrations" / "versions").mkdir(parents=True)
        (folder / "migrations" / "env.py").write_text(ENV)
        (folder / "migrations" / "script.py.mako").write_text(MAKO)
        self.revision("first", FIRST)
        self.config = Config()
        self.config.set_main_option("script_location", str(folder / "migrations"))
        self.config.set_main_option("path_separator", "os")
        self.mill, self.base = application(url)
        self.engine: sa.Engine = self.mill.store.sync_engine

    def revision(self, name: str, text: str) -> None:
        (self.folder / "migrations" / "versions" / f"{name}.py").write_text(text)

    def rows(self, text: str) -> list[tuple[Any, ...]]:
        with self.engine.begin() as connection:
            found = connection.execute(sa.text(text))
            return [tuple(row) for row in found] if found.returns_rows else []

    def differences(self, **options: Any) -> list[Any]:
        """What autogenerate would propose."""
        with self.engine.connect() as connection:
            context = MigrationContext.configure(connection, opts={"target_metadata": self.base.metadata, **options})
            return list(compare_metadata(context, self.base.metadata))

    @property
    def columns(self) -> set[str]:
        return {column["name"] for column in sa.inspect(self.engine).get_columns("files")}


def application(url: str) -> tuple[rm.Mill, type[DeclarativeBase]]:
    class Base(DeclarativeBase):
        pass

    class File(Base):
        __tablename__ = "files"
        id: Mapped[int] = mapped_column(primary_key=True)
        path: Mapped[str] = mapped_column(sa.Text)
        status: Mapped[str] = mapped_column(sa.String(20), server_default="queued")
        tries: Mapped[int | None]
        prio: Mapped[int | None]
        available_at: Mapped[Any] = mapped_column(sa.DateTime(timezone=True), nullable=True)
        lease: Mapped[int | None] = mapped_column(sa.BigInteger)
        leased_until: Mapped[Any] = mapped_column(sa.DateTime(timezone=True), nullable=True)
        error: Mapped[str | None] = mapped_column(sa.Text)
        finished_at: Mapped[Any] = mapped_column(sa.DateTime(timezone=True), nullable=True)

    mill = rm.Mill(url)
    files = mill.queue(
        File,
        columns=rm.Columns(state="status", attempts="tries"),
        states=rm.States(ready="queued", running="processing", done="completed", dead="failed"),
        order=rm.Order(priority="prio"),
    )

    @files.handler()
    async def ingest(lease: rm.Lease[File]) -> None:
        pass

    return mill, Base


@pytest.fixture
def shop(tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    found = Shop(tmp_path / "shop", database_url)
    module: Any = ModuleType("shop")
    module.Base, module.mill = found.base, found.mill
    monkeypatch.setitem(sys.modules, "shop", module)
    command.upgrade(found.config, "heads")
    found.rows("ALTER TABLE files ADD COLUMN prio integer")
    for n, word in enumerate(["queued", "queued", "processing", "completed", "failed"]):
        found.rows(f"INSERT INTO files (path, status, prio) VALUES ('f{n}', '{word}', {n})")
    yield found
    found.engine.dispose()


pytestmark = [
    pytest.mark.empty_database,
    pytest.mark.filterwarnings("ignore:Skipped unsupported reflection of expression-based index"),
    pytest.mark.filterwarnings("ignore:autogenerate skipping metadata-specified expression-based index"),
]


def adopted(shop: Shop) -> Path:
    shop.revision("rowmill", OWN)
    assert run(["adopt", "files", "--app", "shop:mill", "--alembic", str(shop.folder / "migrations")]) == 0
    command.upgrade(shop.config, "heads")
    [written] = (shop.folder / "migrations" / "versions").glob("*_rowmill_adopt_files.py")
    return written


async def test_the_revision_that_adopt_writes_makes_the_table_a_queue(shop: Shop) -> None:
    before = len(shop.rows("SELECT * FROM files"))
    # The command runs a loop of its own: not inside ours.
    await asyncio.to_thread(adopted, shop)

    report = await shop.mill.drain()

    assert report.done == 2
    states = dict(shop.rows("SELECT status, count(*) FROM files GROUP BY status"))
    assert states == {"completed": 3, "processing": 1, "failed": 1}
    assert sum(states.values()) == before
    assert shop.rows("SELECT count(*) FROM files WHERE leased_until IS NOT NULL") == [(1,)]


def test_after_it_nothing_is_missing(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    adopted(shop)
    capsys.readouterr()

    assert run(["adopt", "files", "--app", "shop:mill", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["missing"] == []


def test_autogenerate_proposes_nothing(shop: Shop) -> None:
    adopted(shop)

    command.check(shop.config)  # raises what it would propose


def test_without_the_helpers_autogenerate_would_drop_rowmills_tables(shop: Shop) -> None:
    adopted(shop)

    proposed = [str(difference[0]) for difference in shop.differences(include_schemas=True) if len(difference) > 1]
    kept = shop.differences(
        include_schemas=True,
        include_name=rowmill_alembic.include_name,
        include_object=rowmill_alembic.include_object,
    )

    assert "remove_table" in proposed
    assert [difference for difference in kept if "alembic_version" not in str(difference)] == []


def test_a_downgrade_takes_away_what_it_added_and_keeps_the_rows(shop: Shop) -> None:
    before = shop.columns
    rows = shop.rows("SELECT id, path, status FROM files ORDER BY id")
    adopted(shop)
    assert shop.columns > before

    command.downgrade(shop.config, "first")

    assert shop.columns == before
    assert shop.rows("SELECT id, path, status FROM files ORDER BY id") == rows
    assert not [index for index in sa.inspect(shop.engine).get_indexes("files") if "rowmill" in str(index["name"])]


def test_the_branch_of_rowmills_own_tables_comes_and_goes_by_itself(shop: Shop) -> None:
    shop.revision("rowmill", OWN)
    own = "rowmill" if shop.engine.dialect.name == "postgresql" else None
    prefix = "" if own else "rowmill_"

    command.upgrade(shop.config, "heads")
    command.upgrade(shop.config, "heads")
    assert sa.inspect(shop.engine).has_table(f"{prefix}attempt", schema=own)
    command.downgrade(shop.config, "rowmill@base")

    assert not sa.inspect(shop.engine).has_table(f"{prefix}attempt", schema=own)
    assert shop.rows("SELECT count(*) FROM files") == [(5,)]


def test_a_revision_follows_the_head_that_is_not_rowmills(shop: Shop) -> None:
    written = adopted(shop)

    assert "down_revision = 'first'" in written.read_text()


def test_rows_are_filled_in_batches_whatever_this_database_holds(shop: Shop) -> None:
    """The revision is written on a small database, for a big one."""
    text = adopted(shop).read_text()

    assert "rowmill_alembic.fill(" in text
    assert ("CREATE INDEX CONCURRENTLY" in text) == (shop.engine.dialect.name == "postgresql")


def test_several_heads_are_refused_with_the_way_out(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.revision("second", FIRST.replace('"first"', '"second"').replace("op.create_table", "dict"))
    target = ["adopt", "files", "--app", "shop:mill", "--alembic", str(shop.folder / "migrations")]

    assert run(target) == 2
    assert "--head REVISION" in capsys.readouterr().err
    assert run([*target, "--head", "first"]) == 0


def test_a_file_can_be_named(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    file = shop.folder / "migrations" / "versions" / "queue.py"

    assert run(["adopt", "files", "--app", "shop:mill", "--alembic", str(file), "--json"]) == 0

    assert json.loads(capsys.readouterr().out)["revision"] == str(file)
    command.upgrade(shop.config, "heads")
    assert "leased_until" in shop.columns


def test_a_project_with_an_ini_file_can_be_named(shop: Shop) -> None:
    (shop.folder / "alembic.ini").write_text("[alembic]\nscript_location = migrations\n")

    assert run(["adopt", "files", "--app", "shop:mill", "--alembic", str(shop.folder)]) == 0
    assert list((shop.folder / "migrations" / "versions").glob("*_rowmill_adopt_files.py"))


OFFLINE = """
from alembic import context
context.configure(url={url!r}, dialect_name={dialect!r}, literal_binds=True)
with context.begin_transaction():
    context.run_migrations()
"""


def test_revisions_can_be_written_as_sql(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    """`alembic upgrade --sql`, for those whose database only an administrator may change."""
    shop.revision("rowmill", OWN)
    assert run(["adopt", "files", "--app", "shop:mill", "--alembic", str(shop.folder / "migrations")]) == 0
    dialect = shop.engine.dialect.name
    url = f"{dialect}://"
    (shop.folder / "migrations" / "env.py").write_text(OFFLINE.format(url=url, dialect=dialect))
    capsys.readouterr()

    command.upgrade(shop.config, "heads", sql=True)

    text = capsys.readouterr().out
    assert "CREATE TABLE rowmill.attempt" in text if dialect == "postgresql" else "CREATE TABLE rowmill_attempt" in text
    assert "UPDATE files SET leased_until" in text
    assert "\\:" not in text
