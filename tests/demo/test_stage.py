"""Where the demo takes place, and what it leaves behind."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy import Connection

import rowmill as rm
from rowmill.demo.companies import Company, Effect
from rowmill.demo.fate import Fates
from rowmill.demo.stage import AnotherDemo, set_up
from rowmill.store.own.schema import own_tables, version_of

pytestmark = pytest.mark.empty_database

FATES = Fates(200, 1)
Tables = set[tuple[str | None, str]]


async def tables(url: str) -> Tables:
    def work(connection: Connection) -> Tables:
        inspector = sa.inspect(connection)
        names: list[str | None] = [None] if connection.dialect.name == "sqlite" else ["public", "rowmill"]
        return {(schema, name) for schema in names for name in inspector.get_table_names(schema)}

    return await rm.Mill(url).run(work, write=False)


async def states(queue: rm.Queue[Company]) -> list[str]:
    return await queue.mill.run(lambda c: list(c.scalars(sa.select(Company.state))), write=False)


def files(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


async def test_by_default_it_is_a_file_in_a_folder_that_is_gone_afterwards(temporary: Path) -> None:
    async with set_up(None, FATES, keep=False) as stage:
        assert await states(stage.queue) == ["ready"] * 200
        assert stage.folder.parent == temporary
        (stage.folder / "1.ledger").write_text("start 1 1\n")

    assert files(temporary) == []


async def test_what_is_to_be_kept_is_kept(temporary: Path) -> None:
    async with set_up(None, FATES, keep=True) as stage:
        pass

    mill = rm.Mill(f"sqlite:///{stage.folder / 'companies.db'}")
    count = sa.select(sa.func.count()).select_from(Company)
    assert await mill.run(lambda c: c.scalar(count), write=False) == 200


async def test_a_database_that_was_empty_is_empty_again(database_url: str, temporary: Path) -> None:
    async with set_up(database_url, FATES, keep=False) as stage:
        assert await states(stage.queue) == ["ready"] * 200

    assert await tables(database_url) == set()
    assert files(temporary) == []


async def test_a_sqlite_file_that_it_made_is_gone(sqlite_url: str, tmp_path: Path) -> None:
    async with set_up(sqlite_url, FATES, keep=False):
        assert len(files(tmp_path)) > 1

    assert files(tmp_path) == ["temporary"]


async def test_a_database_in_use_keeps_all_that_is_not_of_the_demo(database_url: str) -> None:
    mill = rm.Mill(database_url)
    await mill.migrate()
    own = own_tables(mill.store.dialect.name)

    def note(connection: Connection, queue: str) -> None:
        values = {"queue": queue, "key": "1", "stage": "work", "attempt": 1, "worker": 1, "code": "x", "message": ""}
        connection.execute(sa.insert(own.attempt).values(ended_at=sa.func.now(), **values))

    await mill.run(lambda c: note(c, "orders"))
    before = await tables(database_url)
    async with set_up(database_url, FATES, keep=False) as stage:
        await mill.run(lambda c: note(c, stage.queue.name))

    assert await tables(database_url) == before
    assert await mill.run(lambda c: list(c.scalars(sa.select(own.attempt.c.queue))), write=False) == ["orders"]
    assert await mill.run(version_of, write=False) is not None


async def test_what_an_earlier_demo_left_is_replaced(database_url: str) -> None:
    async with set_up(database_url, FATES, keep=True) as stage:
        finish = sa.update(Company).values(state="done")
        await stage.queue.mill.run(lambda c: c.execute(finish).close())

    async with set_up(database_url, FATES, keep=False) as stage:
        assert await states(stage.queue) == ["ready"] * 200


async def test_a_demo_that_runs_is_not_disturbed(database_url: str) -> None:
    async with set_up(database_url, FATES, keep=False) as first:
        first.queue.handler()(lambda lease: None)
        async with first.queue.mill.worker():
            with pytest.raises(AnotherDemo, match="another demo runs"):
                async with set_up(database_url, FATES, keep=False):
                    pass

        assert await states(first.queue) == ["ready"] * 200


async def test_the_witness_notes_every_write_of_a_result(database_url: str) -> None:
    async with set_up(database_url, FATES, keep=False) as stage:

        def write(connection: Connection) -> list[int]:
            write = sa.update(Company).where(Company.id == 7)
            connection.execute(write.values(industry="energy", enriched_by=3))
            connection.execute(write.values(industry="energy", enriched_by=4))
            connection.execute(write.values(attempts=2))
            return list(connection.scalars(sa.select(Effect.worker).where(Effect.company_id == 7).order_by(Effect.id)))

        assert await stage.queue.mill.run(write) == [3, 4]


def ended() -> int:
    """The number of a process that is no more."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


async def test_what_a_killed_demo_left_is_cleared_by_the_next_one(temporary: Path) -> None:
    left, others = f"rowmill-demo-{ended()}-x", [f"rowmill-demo-{os.getpid()}-x", "rowmill-demo-kept-x"]
    for name in (left, *others):
        (temporary / name).mkdir()
        (temporary / name / "companies.db").touch()
    async with set_up(None, FATES, keep=False):
        pass

    assert sorted(files(temporary)) == sorted(others)
