"""The rights that the pages of the systems name are enough, on PostgreSQL, for a role that serves and works."""

import json
import os
import re
import secrets
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from rowmill.testing import QUICK
from rowmill_systems.entities.deciding import ConflictDecision, decide, edit, queue_again
from rowmill_systems.entities.entities import Entities
from rowmill_systems.entities.settings import EntitiesSettings
from rowmill_systems.intake.intake import Intake
from systems.tests.entities.harness import EntitiesHarness, FakeSource
from systems.tests.intake.harness import FakeAnalyzer, IntakeHarness, settings_for
from tests.support.python import run_python

pytestmark = pytest.mark.empty_database

PAGES = Path(__file__).parents[2] / "docs" / "systems"


def on_the_page(system: str) -> list[str]:
    text = (PAGES / f"{system}.md").read_text("utf-8").split("## A role with few rights")[1]
    [block] = re.findall(r"```sql\n(.*?)```", text, re.DOTALL)
    return [line for line in block.splitlines() if line]


def printed(system: str, url: str, role: str) -> list[str]:
    app = f"rowmill_systems.{system}.app:mill"
    given = {**os.environ, f"{system.upper()}_DATABASE_URL": url}
    done = run_python("-m", "rowmill", "--app", app, "grants", "--role", role, "--json", env=given)
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout)["statements"])


@pytest.fixture
def role(pg_url: str) -> Any:
    """A role of the database's own, that may connect and nothing else."""
    name, engine = f"app_{secrets.token_hex(4)}", sa.create_engine(pg_url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.exec_driver_sql(f"CREATE ROLE {name} LOGIN")
    yield name
    with engine.begin() as connection:
        connection.exec_driver_sql(f"DROP OWNED BY {name}")
        connection.exec_driver_sql(f"DROP ROLE {name}")
    engine.dispose()


def grant(pg_url: str, system: str, role: str) -> str:
    """The URL of the role, with the rights that are named."""
    engine = sa.create_engine(pg_url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        for statement in [*printed(system, pg_url, role), *on_the_page(system)]:
            connection.exec_driver_sql(re.sub(r"TO app;?$", f"TO {role}", statement))
    engine.dispose()
    return sa.make_url(pg_url).set(username=role).render_as_string(hide_password=False)


async def test_of_entities(pg_url: str, role: str) -> None:
    await Entities(EntitiesSettings(database_url=pg_url), sources=[FakeSource()]).migrate()
    wise = FakeSource()
    wise.learn("Ada Lovelace", "Q7259", birth_date="1815-12-10")
    entities = Entities(EntitiesSettings(database_url=grant(pg_url, "entities", role)), sources=[wise])
    async with entities.opened():
        harness = EntitiesHarness(entities)
        assert await harness.mill.run(entities.revisions.current, write=False) == entities.revisions.heads()
        id = await harness.put("Ada Lovelace", entity_type="person", properties={"birth_date": "1816"})
        await harness.mill.drain(settings=QUICK)
        assert await harness.merged(id) == {"birth_date": ["1816"]}
        [conflict] = await harness.conflicts(id)
        believed = entities.believed
        await harness.mill.run(lambda c: decide(c, entities.tables, conflict.id, ConflictDecision("other"), believed))
        await harness.mill.run(lambda c: edit(c, entities.tables, id, {"birth_date": "1817"}, believed))
        await queue_again(entities, id)
        await harness.mill.drain(settings=QUICK)
        assert await harness.status(id) == "COMPLETE"


async def test_of_intake(pg_url: str, role: str, tmp_path: Path) -> None:
    await Intake(settings_for(pg_url, tmp_path), analyze=FakeAnalyzer()).migrate()
    intake = Intake(settings_for(grant(pg_url, "intake", role), tmp_path), analyze=FakeAnalyzer())
    async with intake.opened():
        harness = IntakeHarness(intake)
        assert await harness.mill.run(intake.revisions.current, write=False) == intake.revisions.heads()
        number = await harness.put("total: 12\nother: 1")
        await harness.drain()
        assert await harness.suggestions(number) == [("total", "12", "pending")]
        await intake.files.requeue(number)
        await harness.drain()
        assert (await harness.file(number)).processing_status == "completed"
