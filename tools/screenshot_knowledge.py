"""Knowledge bases for the pictures of pages: documents of all kinds and in all states, damaged stores, dead events."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import sqlalchemy as sa
from playwright.async_api import Browser, StorageState

from demos.papers.make import make_papers
from rowmill.testing import QUICK
from rowmill_systems.knowledge.accounts.roles import KnowledgeRole
from rowmill_systems.knowledge.accounts.users import create_account
from rowmill_systems.knowledge.bases import create_kb
from rowmill_systems.knowledge.consistency.checking import check
from rowmill_systems.knowledge.documents import request_deletion, request_reprocessing
from rowmill_systems.knowledge.knowledge import Knowledge
from rowmill_systems.knowledge.models import KbDocument, OutboxEvent
from rowmill_systems.knowledge.names import collection_of, owner_of
from rowmill_systems.knowledge.settings import KnowledgeSettings
from rowmill_systems.knowledge.uploading import upload

EMAIL, PASSWORD = "ines.marek@example.org", "correct horse battery"
LONG = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft"
FERRIES = """# Timetable of the ferries

The harbour office says that the new timetable holds from March on. Ferries leave every half hour, and the last one at a
quarter past eleven.

## Prices

The price of a ticket stays as it is until the end of the year. Children under six travel free of charge. Bicycles cost
two euros, and dogs travel free if they are on a lead.

## Later crossings

Passengers had asked for later crossings for years. A trial last summer carried more people than expected: on Fridays,
the ship at eleven was as full as the one at six.

## Winter

Between November and February, ferries leave every hour. When the wind is above force nine, the crossing is closed; the
office decides that an hour before, and says so on its page.
"""
HEAT = """# Why heat pumps hum, and what helps

A heat pump hums because its compressor and its fan turn. Most of the noise that neighbours hear is of the fan.

## What helps

Set it on rubber feet, away from walls that echo. A slower fan is quieter, and at night most pumps may turn more slowly.
A hedge helps little; a wall between the pump and the window helps a lot.
"""
TEXTS = {
    "ferries.md": FERRIES,
    "heat pumps.md": HEAT,
    f"{LONG}_2026.md": f"# {LONG}\n\nThe {LONG} has its anniversary this year.\n",
    "minutes of the council.txt": "The council votes on the new bridge on Thursday. The ferry goes on until then.\n",
    "rye bread.txt": "A recipe for rye bread that needs no kneading. It rests for eighteen hours.\n",
}
STATES: dict[str, dict[str, Any]] = {
    "ships' logs of two centuries.pdf": {
        "status": "processing", "stage": "embedding", "progress_done": 412, "progress_total": 1280, "pages": 640,
    },
    "harbour plan.pdf": {
        "status": "failed", "error_code": "encrypted", "last_error": "encrypted: the file needs a password",
        "retry_count": 0,
    },
    "scan of the contract.pdf": {
        "status": "failed", "error_code": "no_text", "last_error": "no_text: the document was read, and has no words",
    },
    "lighthouse keepers.docx": {
        "error_code": "vectors_unavailable", "retry_count": 2,
        "last_error": "vectors_unavailable: http://127.0.0.1:6333 does not answer",
    },
}  # fmt: skip


async def put(knowledge: Knowledge, kb_id: UUID, name: str, content: bytes) -> UUID:
    async def chunks() -> AsyncIterator[bytes]:
        yield content

    return await upload(knowledge, kb_id, chunks(), filename=name)


async def documents_in(knowledge: Knowledge, kb_id: UUID) -> list[UUID]:
    wanted = sa.select(KbDocument.id).where(KbDocument.kb_id == kb_id, KbDocument.status == "ready")
    return await knowledge.mill.run(lambda c: list(c.scalars(wanted.order_by(KbDocument.filename.desc()))), write=False)


async def damage(knowledge: Knowledge, kb_id: UUID) -> None:
    """Damage the stores a few times, and compare them in between: there is a history of it."""
    for number in (0, 3, 1, 0, 2, 0):
        for document_id in (await documents_in(knowledge, kb_id))[:number]:
            await knowledge.vectors.delete(collection_of(kb_id), document_id)
        await check(knowledge, execute=True)
        await knowledge.mill.drain(settings=QUICK)
    for document_id in (await documents_in(knowledge, kb_id))[:2]:
        await knowledge.vectors.delete(collection_of(kb_id), document_id)
    for text in (b"one", b"two"):
        async with knowledge.storage.receive(most=1000) as incoming:
            await incoming.write(text)
            await incoming.keep(owner_of(uuid4()), uuid4())
    await check(knowledge, execute=True)
    await knowledge.vectors.delete(collection_of(kb_id), (await documents_in(knowledge, kb_id))[2])


def change_rows(connection: sa.Connection) -> None:
    for name, values in STATES.items():
        connection.execute(sa.update(KbDocument).where(KbDocument.filename == name).values(values))
    newest = sa.select(sa.func.max(OutboxEvent.id)).where(OutboxEvent.event_type == "document.reprocess")
    dead = {"state": "dead", "attempts": 5, "last_error": "vectors_unavailable: http://127.0.0.1:6333 does not answer"}
    connection.execute(sa.update(OutboxEvent).where(OutboxEvent.id == newest.scalar_subquery()).values(dead))


@asynccontextmanager
async def knowledge_with_documents(folder: Path) -> AsyncIterator[Knowledge]:
    settings = KnowledgeSettings(
        database_url=f"sqlite:///{folder / 'knowledge.db'}", storage=str(folder / "objects"),
        vectors=str(folder / "vectors.db"), ocr="off", grace_seconds=0, password_cost=10,
    )  # fmt: skip
    knowledge = Knowledge(settings)
    await knowledge.migrate()
    async with knowledge.opened():
        await create_account(knowledge, EMAIL, PASSWORD, role=KnowledgeRole.ADMINISTRATOR)
        await create_account(knowledge, "tom@example.org", PASSWORD, role=KnowledgeRole.EDITOR)
        await create_account(knowledge, f"{LONG[:60].lower()}@example.org", PASSWORD)
        harbour = await create_kb(knowledge, "Harbour", "Timetables, minutes and plans of the harbour office")
        papers = await create_kb(knowledge, "Papers")
        await create_kb(knowledge, LONG, f"A knowledge base with a long name. {LONG}")
        for name, text in TEXTS.items():
            await put(knowledge, harbour, name, text.encode())
        for paper in make_papers(folder / "papers", 1, clean=6, scans=0):
            await put(knowledge, papers, paper.path.name, paper.path.read_bytes())
        await knowledge.mill.drain(settings=QUICK)
        await damage(knowledge, harbour)
        for name in STATES:
            await put(knowledge, harbour, name, b"%PDF-1.7 " + bytes(180_000))
        await request_deletion(knowledge, (await documents_in(knowledge, papers))[0])
        await request_reprocessing(knowledge, (await documents_in(knowledge, papers))[1], "reconciliation")
        await knowledge.mill.run(change_rows)
        yield knowledge


async def knowledge_pages(knowledge: Knowledge, under: str) -> dict[str, str]:
    """Return the pages of knowledge by name, mounted at this path."""

    def ids(connection: sa.Connection) -> dict[str, Any]:
        named = connection.execute(sa.select(KbDocument.filename, KbDocument.id)).all()
        return {row.filename: row.id for row in named}

    documents = await knowledge.mill.run(ids, write=False)
    wanted = sa.select(KbDocument.kb_id).where(KbDocument.filename == "ferries.md")
    harbour = await knowledge.mill.run(lambda c: c.scalar(wanted), write=False)
    busy = documents["ships' logs of two centuries.pdf"]
    dead = sa.select(OutboxEvent.id).where(OutboxEvent.state == "dead")
    event = await knowledge.mill.run(lambda c: c.scalar(dead), write=False)
    return {
        "knowledge-bases": f"{under}/",
        "knowledge-base": f"{under}/bases/{harbour}",
        "knowledge-base-failed": f"{under}/bases/{harbour}?status=failed",
        "knowledge-base-none": f"{under}/bases/{harbour}?q=nothing+like+it",
        "knowledge-document": f"{under}/documents/{documents['ferries.md']}?look=1",
        "knowledge-document-failed": f"{under}/documents/{documents['scan of the contract.pdf']}",
        "knowledge-document-busy": f"{under}/documents/{busy}",
        "knowledge-search": f"{under}/search",
        "knowledge-search-hits": f"{under}/search?q=when+does+the+last+ferry+leave",
        "knowledge-search-none": f"{under}/search?q=ferry&kind=email",
        "knowledge-consistency": f"{under}/consistency",
        "knowledge-findings": f"{under}/consistency/findings?kind=ready_without_vectors",
        "knowledge-outbox": f"{under}/outbox",
        "knowledge-outbox-dead": f"{under}/outbox?state=dead",
        "knowledge-event": f"{under}/outbox/{event}",
        "knowledge-people": f"{under}/people",
        "knowledge-account": f"{under}/account",
        "knowledge-docs": f"{under}/docs",
    }


async def log_in_to_knowledge(browser: Browser, address: str, folder: Path) -> StorageState:
    """Log in, compare the stores, and return the session. Pictures of the page for logging in are taken, too."""
    context = await browser.new_context()
    page = await context.new_page()
    await page.goto(f"{address}/login")
    for theme in ("light", "dark"):
        await page.emulate_media(color_scheme=theme)
        for width in (1280, 390):
            await page.set_viewport_size({"width": width, "height": 844})
            await page.screenshot(path=folder / f"knowledge-login-{width}-{theme}.png")
    await page.get_by_label("Email").fill(EMAIL)
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Log in").click()
    await page.goto(f"{address}/consistency")
    await page.get_by_role("button", name="Check now").click()
    await page.locator(".plan").wait_for()
    await page.get_by_role("button", name="Look for orphans").click()
    await page.locator(".orphans").wait_for()
    session = await context.storage_state()
    await context.close()
    return session
