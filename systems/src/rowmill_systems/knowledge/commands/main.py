"""`rowmill systems knowledge …`"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rowmill.systems import commands
from rowmill.systems.commands import (
    Exit,
    FormatOption,
    GraceOption,
    JsonOption,
    LevelOption,
    LogFormat,
    StopSignals,
    UrlOption,
    UsageError,
    YesOption,
    ask_to_change,
    emit,
    run_loop,
    settings_of,
    start_log,
    table,
)
from rowmill_systems.knowledge.commands.bases import bases
from rowmill_systems.knowledge.commands.fsck import fsck
from rowmill_systems.knowledge.commands.loading import (
    NAME,
    StorageOption,
    VectorsOption,
    find_kbs,
    load,
    load_with_stores,
    parse_ids,
    run,
    usage_errors,
)
from rowmill_systems.knowledge.commands.users import users

if TYPE_CHECKING:
    from fastapi import FastAPI

    from rowmill_systems.knowledge.knowledge import Knowledge

app = typer.Typer(
    no_args_is_help=True,
    help="Knowledge bases: documents are stored, read and found by meaning. The database, the object store and the "
    "vector store stay consistent.",
)
KbOption = Annotated[
    list[str] | None,
    typer.Option("--kb", metavar="NAME", help="A knowledge base, by name or id. May be repeated. Otherwise all."),
]


def migrate(database_url: UrlOption = None, json: JsonOption = False) -> None:
    """Make the tables of knowledge bases, or bring them to this version.

    \b
    Example:
      rowmill systems knowledge migrate --database-url postgresql://localhost/knowledge
    """
    with usage_errors():
        commands.migrate(load(database_url), json)


def serve(
    host: commands.HostOption = "127.0.0.1",
    port: commands.PortOption = 8000,
    name: commands.NameOption = None,
    with_worker: Annotated[bool, typer.Option("--with-worker", help="Process documents too, in this process.")] = False,
    database_url: UrlOption = None,
    storage: StorageOption = None,
    vectors: VectorsOption = None,
    log_level: LevelOption = None,
    log_format: FormatOption = LogFormat.TEXT,
) -> None:
    """Serve the API (/openapi.json) and the pages: knowledge bases, documents, search, consistency, outbox.

    People log in. Make the first user with: rowmill systems knowledge users add EMAIL --superuser

    \b
    Example:
      rowmill systems knowledge serve --with-worker
      KNOWLEDGE_SECURE_COOKIES=true rowmill systems knowledge serve --name knowledge.example.org
    """
    knowledge = load_with_stores(database_url, storage, vectors, model=with_worker)

    def build(hosts: Sequence[str]) -> "FastAPI":
        from rowmill_systems.knowledge.web.app import create_app

        return create_app(knowledge, hosts=hosts)

    with usage_errors():
        commands.serve(
            knowledge, NAME, build, host=host, port=port, names=name, with_worker=with_worker,
            log_level=log_level, log_format=log_format,
        )  # fmt: skip


def work(
    processes: commands.ProcessesOption = 1,
    grace: GraceOption = None,
    database_url: UrlOption = None,
    storage: StorageOption = None,
    vectors: VectorsOption = None,
    log_level: LevelOption = None,
    log_format: FormatOption = LogFormat.TEXT,
    lifeline: commands.LifelineOption = False,
) -> None:
    """Process documents and other events, and compare the stores each hour, until told to stop. Twice: leave at once.

    \b
    Example:
      rowmill systems knowledge work
      KNOWLEDGE_OCR=tesseract rowmill systems knowledge work --processes 2
    """
    options = {"--database-url": commands.given_url(database_url), "--storage": storage, "--vectors": vectors}
    knowledge = load_with_stores(database_url, storage, vectors, model=True)
    with usage_errors():
        commands.work(
            knowledge, NAME, processes=processes, grace=grace, log_level=log_level, log_format=log_format,
            lifeline=lifeline, options=options,
        )  # fmt: skip


def add(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH…", help="Files, or folders of them.", exists=True)],
    kb: Annotated[
        str, typer.Option("--kb", metavar="NAME", help="The knowledge base, by name or id. It is made if need be.")
    ] = "Documents",
    no_work: Annotated[
        bool, typer.Option("--no-work", help="Only put them in; workers elsewhere process them.")
    ] = False,
    database_url: UrlOption = None,
    storage: StorageOption = None,
    vectors: VectorsOption = None,
    json: JsonOption = False,
) -> None:
    """Put files into a knowledge base, process them here, and say what became of each. Exits with 5 if some failed.

    \b
    Example:
      rowmill systems knowledge add ~/handbook --kb Handbook
      rowmill systems knowledge add a.pdf b.docx --kb Handbook --no-work --json
    """
    knowledge = load_with_stores(database_url, storage, vectors, model=True)
    settings = settings_of(knowledge.mill, None)
    start_log(None, LogFormat.TEXT, "error")
    told = StopSignals()
    told.listen()

    async def work_on_all() -> int:
        from rowmill_systems.knowledge.commands.adding import (
            AddedFiles,
            find_or_create,
            process_all,
            put_in,
            report,
        )

        await commands.prepare(knowledge, NAME)
        async with knowledge.opened():
            batch = AddedFiles(await find_or_create(knowledge, kb))
            await put_in(knowledge, batch, paths)
            if not no_work:
                await process_all(knowledge, batch, settings, told)
            return await report(knowledge, batch, json, processed=not no_work)

    with usage_errors():
        code = run_loop(told.run_until_stopped(work_on_all))
    raise typer.Exit(told.code or (Exit.OK if code is None else code))


def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to look for, in your own words.")],
    kb: KbOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, max=100)] = 5,
    database_url: UrlOption = None,
    storage: StorageOption = None,
    vectors: VectorsOption = None,
    json: JsonOption = False,
) -> None:
    """Find passages by meaning and by words. Exits with 5 if the vector store could not be asked.

    \b
    Example:
      rowmill systems knowledge search "how long is the warranty?"
      rowmill systems knowledge search "warranty" --kb Handbook --limit 10 --json
    """
    from rowmill_systems.knowledge.commands.searching import search_and_show

    start_log(None, LogFormat.TEXT, "error")
    knowledge = load_with_stores(database_url, storage, vectors)
    raise typer.Exit(run(knowledge, lambda k: search_and_show(k, query, kb or [], limit, json)))


def ask(
    question: Annotated[str, typer.Argument(metavar="QUESTION")],
    kb: KbOption = None,
    database_url: UrlOption = None,
    storage: StorageOption = None,
    vectors: VectorsOption = None,
    json: JsonOption = False,
) -> None:
    """Answer a question from the documents, with citations. Needs a model: KNOWLEDGE_ENDPOINT_URL and
    KNOWLEDGE_ANSWER_MODEL.

    \b
    Example:
      rowmill systems knowledge ask "Who approves travel?" --kb Handbook
    """
    from rowmill_systems.knowledge.commands.searching import answer_and_show

    start_log(None, LogFormat.TEXT, "error")
    knowledge = load_with_stores(database_url, storage, vectors)
    if not (knowledge.settings.endpoint_url and knowledge.settings.answer_model):
        raise UsageError(
            "answers need a model behind an OpenAI-compatible endpoint. Set KNOWLEDGE_ENDPOINT_URL and "
            "KNOWLEDGE_ANSWER_MODEL; `search` finds passages without one"
        )
    run(knowledge, lambda k: answer_and_show(k, question, kb or [], json))


def documents(
    kb: KbOption = None,
    status: Annotated[
        str | None,
        typer.Option("--status", metavar="STATUS", help="pending, processing, ready or failed."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, max=10_000)] = 100,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """List documents with their status, the latest first.

    \b
    Example:
      rowmill systems knowledge documents --kb Handbook --status failed
    """
    from rowmill_systems.knowledge.documents import list_documents
    from rowmill_systems.knowledge.models import HIDDEN, DocumentStatus

    known = {str(each): each for each in DocumentStatus if each not in HIDDEN}
    if status is not None and status not in known:
        raise UsageError(f"there is no status {status}. There are: {', '.join(known)}")

    async def read(knowledge: "Knowledge") -> list[dict[str, Any]]:
        wanted = None if status is None else known[status]
        found = [
            each
            for kb_id in await find_kbs(knowledge, kb or [])
            for each in await list_documents(knowledge, kb_id, status=wanted, limit=limit)
        ]
        found.sort(key=lambda each: each.created_at, reverse=True)
        return [
            {"id": each.id, "kb_id": each.kb_id, "filename": each.filename, "status": each.status,
             "pages": each.pages, "passages": each.chunk_count, "retry_count": each.retry_count,
             "error_code": each.error_code, "last_error": each.last_error, "created_at": each.created_at}
            for each in found[:limit]
        ]  # fmt: skip

    rows = run(load(database_url), read)
    columns = ("id", "filename", "status", "pages", "passages", "error_code")
    emit({"documents": rows}, json, lambda: table(columns, [[row[name] for name in columns] for row in rows]))


def delete(
    ids: Annotated[list[str], typer.Argument(metavar="ID…", help="Documents.")],
    yes: YesOption = False,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Delete documents from all stores. They are hidden at once; a worker removes them.

    \b
    Example:
      rowmill systems knowledge delete 0b6e0f0e-8f6c-4c5b-9f0e-2a7f3c1d9a11 --yes
    """
    from rowmill_systems.knowledge.documents import find_document, request_deletion

    found = parse_ids(ids)
    knowledge = load(database_url)

    async def check(knowledge: "Knowledge") -> None:
        for each in found:
            await find_document(knowledge, each)

    async def remove(knowledge: "Knowledge") -> None:
        for each in found:
            await request_deletion(knowledge, each)

    run(knowledge, check)
    if not yes:
        ask_to_change(f"{len(found):,} document{'s' * (len(found) > 1)}, which will be deleted from all stores")
    run(load(database_url), remove)
    emit({"deleting": found}, json, f"deleting {len(found):,}")


def reprocess(
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID…", help="Documents.")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="All documents that failed.")] = False,
    kb: KbOption = None,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Process documents again. Search shows what they had until then.

    \b
    Example:
      rowmill systems knowledge reprocess --failed --kb Handbook
    """
    if bool(ids) == failed:
        raise UsageError("say which: ids of documents, or --failed")
    from rowmill_systems.knowledge.documents import list_documents, request_reprocessing
    from rowmill_systems.knowledge.models import DocumentStatus

    given = parse_ids(ids or [])

    async def request(knowledge: "Knowledge") -> int:
        number = 0
        for each in given:
            await request_reprocessing(knowledge, each, "operator")
            number += 1
        for kb_id in await find_kbs(knowledge, kb or []) if failed else []:
            before = None
            while page := await list_documents(knowledge, kb_id, status=DocumentStatus.FAILED, before=before):
                for document in page:
                    await request_reprocessing(knowledge, document.id, "operator")
                    number += 1
                before = (page[-1].created_at, page[-1].id)
        return number

    number = run(load(database_url), request)
    emit({"reprocessing": number}, json, f"{number:,} will be processed again")


def stats(database_url: UrlOption = None, json: JsonOption = False) -> None:
    """Show knowledge bases, their documents by status, and the outbox.

    \b
    Example:
      rowmill systems knowledge stats --json
    """
    from rowmill_systems.knowledge.bases import list_kbs

    async def read(knowledge: "Knowledge") -> dict[str, Any]:
        found = [
            {"id": each.kb.id, "name": each.kb.name, "documents": dict(each.documents)}
            for each in await list_kbs(knowledge)
        ]
        return {"knowledge_bases": found, "outbox": (await knowledge.outbox.stats()).as_dict()}

    found = run(load(database_url), read)

    def show() -> None:
        statuses = ("ready", "pending", "processing", "failed")
        rows = [[each["name"], *(each["documents"].get(status, 0) for status in statuses)]
                for each in found["knowledge_bases"]]  # fmt: skip
        table(["knowledge base", *statuses], rows)
        print()
        table(["outbox", "number"], [(name, number) for name, number in found["outbox"].items()])

    emit(found, json, show)


for command in (add, search, ask, documents, reprocess, delete, stats, fsck, serve, work, migrate):
    app.command()(command)
app.add_typer(bases, name="kb")
app.add_typer(users, name="users")
