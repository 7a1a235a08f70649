"""Take a picture of every page: `make screenshots`, or `python -m tools.screenshots FOLDER --only entities`.

Demo data is put in, the systems are mounted on a server on the loopback, and a Chromium that is on the PATH takes each
page at the width of a desk and of a phone, light and dark. It also reports pages that are wider than their window, and
whatever the browser complains about.
"""

import argparse
import asyncio
import io
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
import uvicorn
from playwright.async_api import Browser, StorageState, async_playwright

from demos.papers.make import make_papers
from rowmill.testing import QUICK
from rowmill.web.mounting import mounted
from rowmill_systems.articles.web.app import create_app as articles_app
from rowmill_systems.companies.companies import Companies
from rowmill_systems.companies.mapping_files import import_mappings
from rowmill_systems.companies.mappings import CompanyMappingRepository
from rowmill_systems.companies.resolver import CompanyIdResolver
from rowmill_systems.companies.service import CompanyEnrichmentService
from rowmill_systems.companies.settings import CompaniesSettings
from rowmill_systems.companies.web.app import create_app as companies_app
from rowmill_systems.companies.write_back import register_target
from rowmill_systems.entities.entities import Entities
from rowmill_systems.entities.settings import EntitiesSettings
from rowmill_systems.entities.submitting import submit
from rowmill_systems.entities.web.app import create_app as entities_app
from rowmill_systems.intake.intake import Intake
from rowmill_systems.intake.models import FieldSuggestion, ProjectFile, SuggestionState
from rowmill_systems.intake.settings import IntakeSettings
from rowmill_systems.intake.upload import Upload, add
from rowmill_systems.intake.web.app import create_app as intake_app
from rowmill_systems.knowledge.web.app import create_app as knowledge_app
from tests.support.browser import find_chromium
from tools.screenshot_articles import article_pages, articles_with_rows
from tools.screenshot_knowledge import knowledge_pages, knowledge_with_documents, log_in_to_knowledge

WIDTHS = {"desk": (1280, 900), "phone": (390, 844)}
THEMES = ("light", "dark")
LONG_NAME = (
    "Rechnung_Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft_2026-03-31_final.txt"
)
ODD = {
    LONG_NAME: "Invoice number: 4711\nInvoice date: 2026-03-31\nTotal: EUR 1,204.50\n",
    "empty scan.pdf": "%PDF-1.7 this is no PDF",
    "notes.txt": "Nothing in here is a field of the catalogue.",
}
PEOPLE: list[dict[str, Any]] = [
    {"name": "Ada Lovelace", "entity_type": "person", "context": "She wrote the first program.",
     "properties": {"birth_date": "1816"}},
    {"name": "Berlin", "entity_type": "city", "context": "the capital of Germany"},
    {"name": "Paris", "entity_type": "GPE"},
    {"name": "Marie Curie", "entity_type": "person", "properties": {"birth_date": "1867-11-08"}},
    {"name": "Apple", "entity_type": "ORG"},
    {"name": "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft", "entity_type": "ORG"},
    {"name": "Nobody Of That Name"},
]  # fmt: skip
REGISTER = """company_id,name
601,Aurora Mining AG
602,Aurora Mining Oy
603,Siemens AG
604,北京华兴科技有限公司
605,上海华兴科技有限公司
606,Meridian Foods Group
607,Harbour Logistics Ltd
"""
MAPPINGS = "match_type,alias,company_id\ncompany_name,Cobalt Steel GmbH,801\ncompany_name,COBALT STEEL GMBH,802\n"
NAMES = [
    "SIEMENS AG", "Northwind Traders Ltd", "Aurora Mining B.V.", "Meridian Foods", "北京華興科技有限公司", "华兴科技",
    "Harbour Logistics Limited", "Nobody Knows This Pty Ltd", "", "Cobalt Steel GmbH",
]  # fmt: skip


@asynccontextmanager
async def intake_with_files(folder: Path) -> AsyncIterator[Intake]:
    """Papers of all kinds that were read, one that waits, one that failed, and some fields applied."""
    settings = IntakeSettings(database_url=f"sqlite:///{folder / 'intake.db'}", storage=str(folder / "files"))
    intake = Intake(settings)
    papers = make_papers(folder / "papers", 1, clean=14, scans=0)

    async def put(name: str, content: bytes, doc_type: str | None = None, project: int = 1) -> int:
        async def chunks() -> AsyncIterator[bytes]:
            yield content

        return await add(intake, Upload(1, project, name, None, doc_type), chunks())

    async with intake.opened():
        await intake.migrate()
        for paper in papers:
            await put(paper.path.name, paper.path.read_bytes(), paper.doc_type)
        for name, text in ODD.items():
            await put(name, text.encode())
        await put("contract.txt", b"Contract number: C-17\n", "contract", project=2)
        await intake.mill.drain(settings=QUICK)
        running = await put("annual report.pdf", b"%PDF-1.7 long")
        await put("waiting.txt", b"Total: 3")

        def decide(connection: sa.Connection) -> None:
            first = sa.select(ProjectFile.id).order_by(ProjectFile.id).limit(4).offset(1)
            sure = (FieldSuggestion.file_id.in_(first), FieldSuggestion.confidence >= 0.9)
            applied = {"state": SuggestionState.APPLIED, "decided_by": "ann", "decided_at": sa.func.now()}
            connection.execute(sa.update(FieldSuggestion).where(*sure).values(applied))
            row = sa.update(ProjectFile).where(ProjectFile.id == running)
            connection.execute(row.values(processing_status="processing", pages_read=3, page_count=12))

        await intake.mill.run(decide)
        yield intake


@asynccontextmanager
async def entities_with_rows(folder: Path) -> AsyncIterator[Entities]:
    """Entities that are linked, in conflict, waiting and failed."""
    entities = Entities(EntitiesSettings(database_url=f"sqlite:///{folder / 'entities.db'}"))
    async with entities.opened():
        await entities.migrate()
        rows = [
            {"dataset": "people and places", "external_id": str(number), **row} for number, row in enumerate(PEOPLE)
        ]
        await entities.mill.run(lambda connection: submit(entities, connection, rows))
        await entities.mill.drain(settings=QUICK)
        more = [{"name": name, "entity_type": "city"} for name in ("Vienna", "Rome", "Oslo")]

        def change(connection: sa.Connection) -> None:
            entity = entities.tables.entity
            vienna, rome, _ = submit(entities, connection, more)
            waits = {"enrichment_status": "LINK_FAILED", "enrichment_error": "provider_down: it does not answer",
                     "enrichment_retry_count": 2}  # fmt: skip
            failed = {
                "enrichment_status": "FAILED",
                "enrichment_error": "refused: the service refused the request (403)",
            }
            later = sa.func.datetime("now", "+5 minutes")
            connection.execute(
                sa.update(entity).where(entity.id == vienna).values(**waits, enrichment_available_at=later)
            )
            connection.execute(sa.update(entity).where(entity.id == rome).values(**failed))

        await entities.mill.run(change)
        yield entities


@asynccontextmanager
async def companies_with_names(folder: Path) -> AsyncIterator[Companies]:
    """Names that are resolved, waiting, failed and to be decided; a target; a conflict of mappings."""
    register = folder / "register.csv"
    register.write_text(REGISTER, "utf-8")
    settings = CompaniesSettings(
        database_url=f"sqlite:///{folder / 'companies.db'}", providers="file", companies_file=register
    )
    companies = Companies(settings)
    await companies.migrate()
    async with companies.opened():

        def fill(connection: sa.Connection) -> None:
            connection.exec_driver_sql("CREATE TABLE policies (id INTEGER PRIMARY KEY, company_id TEXT)")
            register_target(connection, "policies", "company_id")
            mappings = CompanyMappingRepository(connection, settings)
            mappings.store_mapping("company_name", "northwind traders ltd", "700")
            import_mappings(mappings, io.BytesIO(MAPPINGS.encode()))
            CompanyIdResolver(connection, settings, salt=companies.salts.current).resolve(NAMES)

        await companies.mill.run(fill)
        await CompanyEnrichmentService(companies).process_queue()

        def change(connection: sa.Connection) -> None:
            resolver = CompanyIdResolver(connection, settings, salt=companies.salts.current)
            resolver.resolve([*NAMES, "Kestrel Optics BV", "Prairie Dairy Inc"])
            requests = companies.tables.requests
            failed = {"status": "failed", "attempts": 3, "last_error": "server_error: the service failed (502)"}
            connection.execute(sa.update(requests).where(requests.c.raw_name == "Prairie Dairy Inc").values(failed))

        await companies.mill.run(change)
        yield companies


@asynccontextmanager
async def serving(app: object) -> AsyncIterator[str]:
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", lifespan="on"))  # type: ignore[arg-type]
    running = asyncio.create_task(server.serve())
    while not server.started:
        if running.done():
            running.result()
        await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await running


async def pages_of(intake: Intake, entities: Entities) -> dict[str, str]:
    """Every page worth a picture, by name."""
    entity, conflict = entities.tables.entity, entities.tables.conflict

    def first(statement: sa.Select[Any]) -> Callable[[sa.Connection], Any]:
        return lambda connection: connection.scalar(statement)

    one = await entities.mill.run(first(sa.select(conflict.entity_id).limit(1)), write=False)
    unlinked = await entities.mill.run(first(sa.select(entity.id).where(entity.name == "Paris")), write=False)
    names = {"pdf": "%.pdf", "html": "%.html", "long": "Rechnung_Donau%"}
    files = {
        key: await intake.mill.run(
            first(sa.select(ProjectFile.id).where(ProjectFile.filename.like(like)).order_by(ProjectFile.id)),
            write=False,
        )
        for key, like in names.items()
    }
    review = "/intake/review/1/1"
    return {
        "front": "/",
        "intake-projects": "/intake/",
        "intake-files": review,
        "intake-files-failed": f"{review}?state=failed",
        "intake-files-none": f"{review}?q=nothing+like+it",
        "intake-files-new": "/intake/review/1/9",
        "intake-fields": f"{review}/fields",
        "intake-catalogue": "/intake/looked-for",
        "intake-docs": "/intake/docs",
        "intake-404": "/intake/nothing",
        "entities-pipeline": "/entities/",
        "entities-list": "/entities/browse",
        "entities-list-none": "/entities/browse?q=xyz",
        "entities-conflicts": "/entities/review-conflicts",
        "entities-entity": f"/entities/browse/{one}",
        "entities-candidates": f"/entities/browse/{unlinked}",
        "entities-docs": "/entities/docs",
        "companies-overview": "/companies/",
        "companies-requests": "/companies/requests",
        "companies-requests-none": "/companies/requests?q=xyz",
        "companies-review": "/companies/review",
        "companies-conflicts": "/companies/conflicts",
        "companies-docs": "/companies/docs",
        **{f"intake-file-{key}": f"{review}/files/{number}" for key, number in files.items() if number},
        "intake-file-applied": f"{review}/files/2",
    }


OPENED = {
    "intake-projects": "[data-dialog]",
    "intake-file-long": "details.edit summary",
    "entities-list": "[data-dialog]",
    "intake-docs": ".operation summary",
    "articles-feed": ".why summary",
    "knowledge-bases": "[data-dialog]",
    "knowledge-base": "[data-dialog=delete]",
    "knowledge-consistency": "[data-dialog]",
    "knowledge-people": "[data-dialog]",
}
"""What is clicked on a page for one more picture of it."""


async def take(
    browser: Browser, base: str, pages: dict[str, str], folder: Path, session: StorageState | None = None
) -> list[str]:
    """Take the pictures, logged in by the cookies of a session. Returns what is wrong with the pages."""
    problems: list[str] = []
    for width, (across, down) in WIDTHS.items():
        for theme in THEMES:
            size = {"width": across, "height": down}
            page = await browser.new_page(viewport=size, color_scheme=theme, storage_state=session)  # type: ignore[arg-type]
            page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
            page.on("pageerror", lambda error: problems.append(str(error)))
            for name, path in pages.items():
                await page.goto(base + path)
                await page.evaluate("for (const image of document.images) image.loading = 'eager'")
                await page.evaluate(
                    "Promise.all([...document.images].map((image) => image.decode().catch(() => null)))"
                )
                await page.screenshot(path=folder / f"{name}-{width}-{theme}.png", full_page=True)
                if name in OPENED:
                    await page.locator(OPENED[name]).first.click()
                    await page.screenshot(path=folder / f"{name}-opened-{width}-{theme}.png")
                wide = await page.evaluate("document.documentElement.scrollWidth")
                if wide > across:
                    problems.append(f"{path} is {wide} wide in a window of {across}")
            await page.close()
    return [problem for problem in dict.fromkeys(problems) if "404" not in problem]


async def main(folder: Path, only: Sequence[str]) -> int:
    chromium = find_chromium()
    if chromium is None:
        print("there is no Chromium on the PATH. On Debian: apt install chromium", file=sys.stderr)
        return 2
    async with AsyncExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        intake = await stack.enter_async_context(intake_with_files(scratch))
        entities = await stack.enter_async_context(entities_with_rows(scratch))
        companies = await stack.enter_async_context(companies_with_names(scratch))
        articles = await stack.enter_async_context(articles_with_rows(scratch))
        knowledge = await stack.enter_async_context(knowledge_with_documents(scratch))
        app = mounted(
            {
                "/intake": intake_app(intake),
                "/entities": entities_app(entities),
                "/companies": companies_app(companies),
                "/articles": articles_app(articles),
                "/knowledge": knowledge_app(knowledge),
            }
        )
        base = await stack.enter_async_context(serving(app))
        driver = await stack.enter_async_context(async_playwright())
        browser = await driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        pages = await pages_of(intake, entities) | await article_pages(articles, "/articles")
        pages |= await knowledge_pages(knowledge, "/knowledge")
        wanted = {name: path for name, path in pages.items() if not only or any(one in name for one in only)}
        session = await log_in_to_knowledge(browser, f"{base}/knowledge", folder)
        problems = await take(browser, base, wanted, folder, session)
        await browser.close()
    print(json.dumps({"pages": len(wanted), "folder": str(folder), "problems": problems}))
    return 1 if problems else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("build/screenshots"))
    parser.add_argument("--only", action="append", default=[], help="a part of the names of pages")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    sys.exit(asyncio.run(main(given.folder, given.only)))
