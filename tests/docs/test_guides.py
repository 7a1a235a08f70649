"""The guides to applications of several kinds do what they say, on both databases."""

import asyncio
import configparser
import importlib
import json
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from rowmill import Dead, RetryLater, testing
from rowmill.worker import WorkerSettings
from tests.docs.command_lines import problem_of
from tests.docs.pages import BLOCK, ROOT, block_of, run_page
from tests.support.html import read_page
from tests.support.web import client_of

pytestmark = pytest.mark.empty_database

DJANGO_ON_SQLITE = """
CREATE TABLE "news_article" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "title" varchar(200) NOT NULL,
"topic" varchar(50) NULL, "state" varchar(20) NOT NULL, "attempts" integer NOT NULL, "available_at" datetime NOT NULL,
"lease" bigint NULL, "leased_until" datetime NULL, "error" text NULL, "finished_at" datetime NULL)
"""


def with_driver(url: str, driver: str) -> str:
    names = {"asyncpg": "postgresql+asyncpg:", "psycopg": "postgresql+psycopg:"}
    text = url.replace("postgresql:", names[driver])
    return text.replace("sqlite:", "sqlite+aiosqlite:") if driver == "asyncpg" else text


async def test_the_application_of_the_guide_to_pages_works(
    database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = tmp_path / "articles"
    (package / "templates").mkdir(parents=True)
    (package / "__init__.py").touch()
    text = (ROOT / "docs/guides/web.md").read_text()
    (package / "app.py").write_text("\n".join(block[1] for block in BLOCK.finditer(text)))
    (package / "templates" / "articles.html").write_text(block_of("docs/guides/web.md", "html"))
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.syspath_prepend(str(tmp_path))
    guide = importlib.import_module("articles.app")
    for module in ("articles.app", "articles"):  # the next database imports it anew
        del sys.modules[module]
    await guide.mill.migrate(tables=True)
    rows = [{"title": f"title {number:02}"} for number in range(60)]
    await guide.mill.run(lambda connection: connection.execute(sa.insert(guide.Article), rows).close())
    async with client_of(guide.office) as client:
        client.headers["accept"] = "text/html"
        first = read_page((await client.get("/articles/?sort=title")).text)
        titles = [tag.text.strip() for tag in first.all("td", class_="main")]
        [following] = first.all("a", rel="next")
        second = read_page((await client.get(following.attributes["href"])).text)
        titles += [tag.text.strip() for tag in second.all("td", class_="main")]
        assert titles == [row["title"] for row in rows]
        found = read_page((await client.get("/articles/?q=TITLE+07")).text)
        assert [tag.text.strip() for tag in found.all("td", class_="main")] == ["title 07"]
        assert [tag.text for tag in found.all("span", class_="chip info")] == ["ready"]
        await guide.mill.drain(settings=testing.QUICK)
        done = read_page((await client.get("/articles/?q=title+07")).text)
        [form] = [tag for tag in done.all("form") if tag.attributes["action"].endswith("/again")]
        sent = await client.post(form.attributes["action"])
        assert (sent.status_code, sent.headers["location"]) == (303, "/articles/")
        assert len(read_page((await client.get("/articles/?state=ready")).text).all("td", class_="main")) == 1
        for path, code in (("/articles/docs", 200), ("/articles/nothing", 404), ("/articles/?after=x", 404)):
            answer = await client.get(path)
            assert (answer.status_code, bool(read_page(answer.text))) == (code, True)
        refused = await client.get("/articles/nothing", headers={"accept": "*/*"})
        assert refused.text == re.findall(r"^\$ curl .*\n(.*)$", text, re.MULTILINE)[0]


async def test_the_application_of_the_guide_to_fastapi_works(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", with_driver(database_url, "asyncpg"))
    guide = run_page("docs/guides/fastapi.md")
    await guide["mill"].migrate(tables=True)
    async with client_of(guide["app"]) as client:
        added = await client.post("/articles", json={"title": "World cup"})
        key = added.json()["id"]
        assert added.status_code == 202

        async def read() -> Any:
            return (await client.get(f"/articles/{key}")).json()

        async with asyncio.timeout(60):
            while (await read())["state"] != "done":
                await asyncio.sleep(0.05)
        assert await read() == {"state": "done", "topic": "sports", "error": None}
        assert (await client.get("/articles/99")).status_code == 404
        assert (await client.post(f"/articles/{key}/again")).json() == {"requeued": 1}

        healthy = await client.get("/health")
        assert (healthy.status_code, healthy.json()["working"], healthy.json()["dead"]) == (200, True, 0)
        guide["app"].state.working.cancel()
        await asyncio.wait([guide["app"].state.working])
        assert (await client.get("/health")).status_code == 503
        guide["app"].state.working = asyncio.create_task(asyncio.sleep(0))  # for the end of the lifespan
    await guide["engine"].dispose()


async def test_a_table_of_django_is_worked_on(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    url = with_driver(database_url, "psycopg")
    engine = sa.create_engine(url)
    postgres = engine.dialect.name == "postgresql"
    made = block_of("docs/guides/django.md", "sql") if postgres else DJANGO_ON_SQLITE
    now = "now()" if postgres else "strftime('%Y-%m-%d %H:%M:%f', 'now')"
    with engine.begin() as connection:
        connection.exec_driver_sql(made)
        for title in ("World cup", "Budget"):
            connection.exec_driver_sql(
                f"INSERT INTO news_article (title, state, attempts, available_at) VALUES ('{title}', 'ready', 0, {now})"
            )
    monkeypatch.setenv("DATABASE_URL", url)
    guide = run_page("docs/guides/django.md")
    mill = guide["mill"]
    await mill.migrate()
    assert (await mill.drain()).done == 2
    assert await asyncio.to_thread(guide["put_back"], 1) == 1
    assert (await mill.drain()).done == 1
    with engine.connect() as connection:
        found = connection.execute(sa.text("SELECT title, topic, state FROM news_article ORDER BY id")).all()
    assert [tuple(row) for row in found] == [("World cup", "sports", "done"), ("Budget", "news", "done")]
    engine.dispose()


async def test_the_class_of_the_guide_to_sqlmodel_works(database_url: str) -> None:
    guide = run_page("docs/guides/sqlmodel.md")
    mill, heroes = guide["mill"], guide["heroes"]
    async with testing.mill_on(mill, database_url) as bench:

        def put(connection: sa.Connection) -> None:
            with Session(connection) as session:
                guide["add"](session, "Ant")
                guide["add_later"](session, "Bee", datetime.now(UTC) + timedelta(hours=1))
                session.commit()

        await mill.run(put)
        await bench.drain()
        await bench.assert_states(heroes, done=1, ready=1)
        async with AsyncSession(mill.store.engine) as session:
            hero = (await session.scalars(sa.select(guide["Hero"]).where(guide["Hero"].state == "done"))).one()
        assert hero.power == "power of Ant"
        assert guide["progress"](hero).state == "done"
        assert "state" not in hero.model_dump()


def enqueued(guide: dict[str, Any], connection: sa.Connection) -> Iterator[Any]:
    with Session(connection) as session:
        yield guide["greet"](session, "a@example.org")
        yield guide["remind"](session, "a@example.org")
        session.flush()  # as with the end of their transactions
        yield guide["remind_once"](session, ["a@example.org", "b@example.org"])
        session.execute(sa.text(block_of("docs/guides/enqueue.md", "sql")))
        session.commit()


async def test_rows_are_put_in_as_the_guide_says_later_and_once(database_url: str) -> None:
    guide = run_page("docs/guides/enqueue.md")
    mill, mails = guide["mill"], guide["mails"]
    async with testing.mill_on(mill, database_url) as bench:
        assert (await mill.run(lambda c: list(enqueued(guide, c))))[2] == 1, "the reminder of a is open already"
        await bench.drain()
        await bench.assert_states(mails, done=2, ready=1)
        assert (await mails.why(2)).reason == "backoff"
        with pytest.raises(sa.exc.IntegrityError):
            await bench.insert(mails, {"address": "a@example.org", "kind": "reminder"})
        await bench.advance(86400)
        await bench.drain()
        await bench.insert(mails, {"address": "a@example.org", "kind": "reminder"})  # the first one is finished
        assert await mails.requeue(2) == 0, "another one of its kind is open"
        assert await guide["import_all"](["c@example.org"]) == 1


async def test_a_failed_row_whose_place_was_taken_ends_dead_as_the_guide_warns(database_url: str) -> None:
    text = "state IN ('ready', 'waiting')"
    guide = run_page("docs/guides/enqueue.md")
    mill, mails = guide["mill"], guide["mails"]
    index = next(index for index in mails.table.indexes if index.name == "one_open_mail")
    for dialect in ("postgresql", "sqlite"):
        index.dialect_options[dialect]["where"] = sa.text(text)
    row: dict[str, Any] = {"address": "a@example.org", "kind": "news"}
    async with testing.mill_on(mill, database_url) as bench:
        mails.handlers.clear()

        @mails.handler
        async def send(mail: Any) -> None:
            await bench.insert(mails, row | {"available_at": datetime.now(UTC) + timedelta(hours=1)})
            raise OSError

        await bench.insert(mails, row)
        await bench.drain()
        await bench.assert_states(mails, dead=1, ready=1)


async def test_large_rows_are_read_when_the_guide_says(database_url: str) -> None:
    guide = run_page("docs/guides/large-rows.md")
    mill, documents, pages = guide["mill"], guide["documents"], guide["pages"]
    assert [column.name for column in documents.left_out] == ["body"]
    async with testing.mill_on(mill, database_url) as bench:
        await mill.run(guide["Part"].__table__.create)
        await bench.insert(documents, {"name": "a.txt", "body": b"word " * 2500})
        await bench.insert(pages, {"url": "/", "html": "<title>Home</title>"})
        report = await bench.drain()
        assert report.done == 2
        words = await mill.run(lambda c: c.scalar(sa.select(documents.table.c.words)))
        title = await mill.run(lambda c: c.scalar(sa.select(pages.table.c.title)))
        parts = await mill.run(lambda c: c.scalar(sa.select(sa.func.count()).select_from(guide["Part"])))
    assert (words, title, parts) == (2500, "Home", 3)


async def test_rows_are_looked_at_and_mended_from_python(database_url: str) -> None:
    guide = run_page("docs/guides/operating.md")
    mill, files = guide["mill"], guide["files"]
    async with testing.mill_on(mill, database_url) as bench:
        await bench.insert(files, {"project_id": 1}, {"project_id": 1}, {"project_id": 2})

        @files.handler
        async def fail(file: Any) -> Any:
            return Dead("timeout", "too slow") if file.key == 1 else RetryLater(60)

        await bench.drain()
        assert (await guide["report"]())[:2] == ["0 ready, 1 dead", "1: timeout: too slow"]
        assert await asyncio.to_thread(guide["dead_rows_without_a_loop"]) == 1
        assert await guide["repair"](1) == (1, 1)
        await bench.assert_states(files, cancelled=1, waiting=2)
        assert guide["deaths"] == {"timeout": 1}


async def test_a_row_that_is_running_is_stopped_by_the_statement_of_the_guide(database_url: str) -> None:
    guide = run_page("docs/guides/operating.md")
    mill, files = guide["mill"], guide["files"]
    statement = block_of("docs/guides/operating.md", "sql").replace("id = 17", "id = 1")
    cancelled = asyncio.Event()
    async with testing.mill_on(mill, database_url) as bench:

        @files.handler
        async def wait(file: Any) -> None:
            await mill.run(lambda c: c.execute(sa.text(statement)).close())
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.set()
                raise

        object.__setattr__(files.steps[0], "lease", 1.0)
        await bench.insert(files, {"project_id": 1})
        report = await bench.drain()
        assert (report.done, report.lost, cancelled.is_set()) == (0, 1, True)
        await bench.assert_states(files, cancelled=1)


async def test_rows_are_taken_in_the_order_that_the_guide_to_handlers_says(database_url: str) -> None:
    guide = run_page("docs/guides/handlers.md")
    mill, tickets, payments = guide["mill"], guide["tickets"], guide["payments"]
    taken: list[int] = []
    async with testing.mill_on(mill, database_url) as bench:

        @tickets.handler(concurrency=1)
        async def answer(ticket: Any) -> None:
            taken.append(ticket.row.priority)

        @payments.handler
        async def book(payment: Any) -> Any:
            return Dead("no_money") if payment.key == 1 else None

        await bench.insert(tickets, *({"priority": priority} for priority in (1, 3, 2)))
        await bench.insert(payments, *({"account_id": account} for account in (7, 7, 8)))
        await bench.drain()
        await bench.assert_states(payments, dead=1, ready=1, done=1)
    assert taken == [3, 2, 1]


PAGE = (ROOT / "docs" / "guides" / "deploying.md").read_text()


def test_the_commands_in_the_files_of_the_guide_to_deploying_exist() -> None:
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(block_of("docs/guides/deploying.md", "ini"))
    typed = [shlex.join(json.loads(text)) for text in re.findall(r"command: (\[.*\])", PAGE)]
    assert len(typed) == 3
    typed.append(unit["Service"]["ExecStart"])
    assert [problem_of(command) for command in typed] == [None] * 4


def test_the_grace_periods_of_the_guide_to_deploying_leave_time_to_give_back() -> None:
    names = {f"ROWMILL_{field.name.upper()}" for field in fields(WorkerSettings)}
    assert set(re.findall(r"ROWMILL_[A-Z_]+", PAGE)) <= names | {"ROWMILL_DATABASE_URL", "ROWMILL_POOLED_URL"}
    pod = block_of("docs/guides/deploying.md", "yaml")
    grace = int(re.findall(r'ROWMILL_GRACE, value: "(\d+)"', pod)[0])
    assert int(re.findall(r"terminationGracePeriodSeconds: (\d+)", pod)[0]) >= grace + 15
    unit = block_of("docs/guides/deploying.md", "ini")
    assert int(re.findall(r"TimeoutStopSec=(\d+)", unit)[0]) >= int(re.findall(r"GRACE=(\d+)", unit)[0]) + 15
