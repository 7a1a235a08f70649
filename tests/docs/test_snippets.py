"""Every snippet of the documentation runs, and does what its page says."""

import re
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import httpx2
import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from rowmill import testing
from rowmill.cli.main import run as main
from tests.docs.pages import block_of, pages_with_python, run_page
from tests.support.web import client_of


@pytest.mark.parametrize("page", pages_with_python())
def test_the_snippets_of_a_page_run(page: str) -> None:
    assert run_page(page)


async def test_the_first_screen_of_the_readme_works(tmp_path: Path) -> None:
    readme = run_page("README.md")
    async with testing.mill_on(readme["mill"], tmp_path) as bench:
        await bench.insert(readme["articles"], {"title": "the cup"}, {"title": "budget"})
        await bench.drain()
        table = readme["Article"].__table__
        topics = await readme["mill"].run(lambda c: c.execute(sa.select(table.c.topic).order_by(table.c.id)).all())
    assert [row.topic for row in topics] == ["sports", "news"]


async def test_the_adopted_table_of_the_readme_works(tmp_path: Path) -> None:
    readme = run_page("README.md")
    mill, files = readme["mill"], readme["files"]
    async with testing.mill_on(mill, tmp_path) as bench:
        await mill.run(lambda c: readme["Suggestion"].__table__.create(c))
        await bench.insert(files, {"path": "a.pdf"})
        await bench.drain()
        await bench.assert_states(files, completed=1)
        written = await mill.run(lambda c: c.scalar(sa.select(sa.func.count()).select_from(readme["Suggestion"])))
    assert written == 2


def provider(request: httpx2.Request) -> httpx2.Response:
    name = request.url.params["name"]
    return httpx2.Response({"busy": 429, "stranger": 401}.get(name, 200), text=f"id of {name}")


async def test_the_guide_on_limits_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = partial(httpx2.AsyncClient, transport=httpx2.MockTransport(provider))
    monkeypatch.setattr(httpx2, "AsyncClient", client)
    guide = run_page("docs/guides/limits.md")
    mill, companies = guide["mill"], guide["companies"]
    async with testing.mill_on(mill, tmp_path) as bench:
        await guide["ask"]("a", 100)
        for name in ("ACME", "stranger", "late"):  # the second is refused, and nobody calls after it
            await bench.insert(companies, {"name": name, "tenant": "a"})
            await bench.drain()
        found = await mill.run(lambda c: c.execute(sa.select(guide["Company"].__table__.c.company_id)).all())
        state, spent = await guide["eqc"].state(), await guide["model"].state("a")
    assert [row.company_id for row in found] == ["id of ACME", None, "temporary"]
    assert (state.off, spent.spent) == (True, 50)


@pytest.mark.parametrize("page", ["README.md", "docs/guides/start.md"])
async def test_the_example_test_of_the_testing_guide_passes_on_the_application_of_other_pages(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guide = run_page("docs/guides/testing.md")
    exec(block_of(page, "python"), guide["app"].__dict__)
    await guide["test_a_failed_article_is_tried_again_after_its_backoff"](tmp_path, monkeypatch)


async def test_the_application_of_the_guide_to_logins_lets_nobody_else_in() -> None:
    guide = run_page("docs/guides/login.md")
    guide["users"]["ann"] = (await guide["hasher"].hash("correct horse"), guide["Role"].READER)
    async with client_of(guide["app"]) as client:
        client.headers.update({"accept": "text/html", "origin": str(client.base_url).rstrip("/")})
        asked = await client.get("/notes")
        assert (asked.status_code, asked.headers["location"]) == (303, "/login?next=%2Fnotes")
        form = {"user": "ann", "password": "wrong"}
        assert (await client.post("/login", data=form)).status_code == 401
        assert (await client.post("/login", data={**form, "password": "correct horse"})).status_code == 303
        assert "Those of ann" in (await client.get("/notes")).text
        assert (await client.post("/notes")).status_code == 403
        client.headers["origin"] = "https://evil.example"
        assert (await client.post("/login", data=form)).status_code == 403


async def test_the_example_test_of_the_guide_to_schedules_passes(tmp_path: Path) -> None:
    guide = run_page("docs/guides/schedules.md")
    await guide["test_cleanup"](tmp_path)


async def test_the_report_of_the_guide_to_schedules_is_written_with_its_tick(tmp_path: Path) -> None:
    guide = run_page("docs/guides/schedules.md")
    mill, report = guide["mill"], guide["report"]
    async with testing.mill_on(mill, tmp_path) as bench:
        await mill.run(report.create)
        assert (await bench.tick("report")).done  # a tick of another schedule may fall due meanwhile
        assert len(await mill.run(lambda c: c.execute(sa.select(report)).all())) == 1


async def test_the_rows_of_the_guide_to_retention_go(tmp_path: Path) -> None:
    guide = run_page("docs/guides/retention.md")
    mill, mails = guide["mill"], guide["mails"]
    async with testing.mill_on(mill, tmp_path) as bench:
        old = {"state": "done", "finished_at": datetime.now(UTC) - timedelta(days=8)}
        await mill.run(lambda c: c.execute(sa.insert(mails.table), [old, old | {"state": "dead"}]).close())
        assert (await bench.tick("prune mail")).done == 1
        await bench.assert_states(mails, dead=1)


async def test_the_hand_written_queue_of_the_guide_works_on_rowmill(tmp_path: Path) -> None:
    guide = run_page("docs/guides/from-hand-written.md")
    async with testing.mill_on(guide["mill"], tmp_path) as bench:
        await bench.insert(guide["requests"], {"raw_name": "ACME"}, {"raw_name": "unknown"})
        for wait in (60, 300, 900):
            await bench.drain()
            await bench.advance(wait)
        await bench.assert_states(guide["requests"], done=1, failed=1)


async def test_the_outbox_of_its_guide_works(tmp_path: Path) -> None:
    guide = run_page("docs/guides/outbox.md")
    mill, outbox, document = guide["mill"], guide["outbox"], guide["Document"]
    async with testing.mill_on(mill, tmp_path) as bench:
        await mill.run(document.__table__.create)
        async with AsyncSession(mill.store.engine) as session, session.begin():
            await guide["upload"](session, "a.pdf")
            for event_type in ("document.delete", "kb.delete", "report.made"):
                outbox.add(session, event_type, aggregate_id=2)
        await mill.run(lambda c: c.execute(sa.text(block_of("docs/guides/outbox.md", "sql").replace(":", r"\:"))))
        for _ in range(2):
            async with AsyncSession(mill.store.engine) as session:
                await guide["receive"](session, "m1", "b.pdf")
        await bench.drain()
        await bench.assert_states(outbox.queue, processed=4, waiting=1)
        assert [row.code for row in await bench._attempts(outbox.queue)] == ["NoResultFound"]
        statuses = await mill.run(lambda c: c.execute(sa.select(document.path, document.status)).all())
        assert [tuple(row) for row in statuses] == [("a.pdf", "READY"), ("b.pdf", "PENDING")]
        found = await guide["numbers"]()
        assert (found["processed_last_hour"], found["pending_events"]) == (4, 1)


async def test_the_reconciliation_of_the_guide_finds_and_mends(tmp_path: Path) -> None:
    guide = run_page("docs/guides/reconciliation.md")
    mill, event = guide["mill"], guide["Event"].__table__
    async with testing.mill_on(mill, tmp_path):
        await mill.run(guide["Base"].metadata.create_all)
        rows = [{"id": key, "status": "PROCESSING" if key == "d" else "READY"} for key in "abcd"]
        await mill.run(lambda c: c.execute(sa.insert(guide["Document"]), rows).close())
        guide["vectors"].points += ["a", "a", "z"]
        guide["objects"].names += ["a", "b", "c", "d"]

        assert await guide["every_hour"]() == {"ready_without_vectors": 2, "stuck": 1, "vectors_without_document": 1}
        await guide["every_hour"]()
        sent = await mill.run(lambda c: c.scalars(sa.select(event.c.aggregate).order_by(event.c.aggregate)).all())
        assert list(sent) == ["b", "c", "d"], "once each"

        guide["objects"].names.clear()
        report = await guide["documents"].run()
        assert [one.inventory for one in report.unreadable] == ["objects"]


def test_the_page_of_companies_does_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "docs/systems/companies.md"
    monkeypatch.chdir(tmp_path)
    for setting in ("WDH_DATABASE_URL", "ROWMILL_DATABASE_URL", "DATABASE_URL"):
        monkeypatch.delenv(setting, raising=False)
    monkeypatch.setenv("WDH_TEMP_ID_SALT", "a salt of this test")
    Path("register.csv").write_text(block_of(name, "csv"))
    promised = block_of(name, "text")
    Path("policies.csv").write_text("".join(f"{line.rsplit(',', 4)[0]}\n" for line in promised.splitlines()))
    command = (
        "systems companies resolve policies.csv --column customer --companies-file register.csv --out resolved.csv"
    )
    assert main(command.split()) == 0
    written = Path("resolved.csv").read_text()
    assert re.sub("IN_[A-Z2-7]{16}", "IN_", written) == re.sub("IN_[A-Z2-7]{16}", "IN_", promised)

    page = run_page(name)
    page["companies"].engine.dispose()
    assert (page["first"].company_id, page["first"].rung) == ("600001", "cache")
    assert (page["second"].temporary, page["second"].reason) == (True, "enqueued")
    assert page["policies"]["company_id_rung"].tolist() == ["cache", "queue"]
    assert page["planned"].due == 2
    assert "QueueStats(pending=3, processing=0, done=2, failed=0, exact=True) 3" in capsys.readouterr().out
