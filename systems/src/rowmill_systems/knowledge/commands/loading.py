"""Build the system that options and environment describe, and find the knowledge bases that a person names."""

import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, TypeVar

import sqlalchemy as sa
import typer

from rowmill.errors import BadRequest, DeclarationError, PermanentError
from rowmill.systems import commands
from rowmill.systems.commands import UsageError

if TYPE_CHECKING:
    from rowmill_systems.knowledge.knowledge import Knowledge

NAME = "knowledge"
NEEDED = "knowledge needs packages that are not installed ({}). Run: pip install 'rowmill-systems[knowledge,ocr]'"
T = TypeVar("T")
StorageOption = Annotated[
    str | None,
    typer.Option("--storage", metavar="PLACE", help="A folder, or s3://bucket. Otherwise KNOWLEDGE_STORAGE."),
]
VectorsOption = Annotated[
    str | None,
    typer.Option(
        "--vectors",
        metavar="PLACE",
        help="A file, postgresql://… with pgvector, or the http:// of Qdrant. Otherwise KNOWLEDGE_VECTORS.",
    ),
]


def load(database_url: str | None = None, storage: str | None = None, vectors: str | None = None) -> "Knowledge":
    """Build the system. Raises UsageError with the fix."""
    try:
        from rowmill_systems.knowledge.knowledge import Knowledge
        from rowmill_systems.knowledge.settings import KnowledgeSettings
    except ImportError as error:
        raise UsageError(NEEDED.format(error.name)) from error
    settings = commands.settings_from(
        KnowledgeSettings, database_url=commands.given_url(database_url), storage=storage, vectors=vectors
    )
    with usage_errors():
        return Knowledge(settings)


def load_with_stores(
    database_url: str | None, storage: str | None, vectors: str | None, *, model: bool = False
) -> "Knowledge":
    """Build the system with its stores, and with its model if that is needed, without connecting. Raises UsageError if
    the settings describe none: otherwise workers would fail with each event, until all of them are dead."""
    knowledge = load(database_url, storage, vectors)
    with usage_errors():
        _ = knowledge.storage, knowledge.vectors
        if model:
            _ = knowledge.embedder
    return knowledge


@contextmanager
def usage_errors(what: str = "") -> Iterator[None]:
    """Turn errors of input and settings into messages of the command line. `what` names the file."""
    try:
        yield
    except (PermanentError, BadRequest, DeclarationError) as error:
        raise UsageError(f"{what}: {error}" if what else str(error)) from error
    except LookupError as error:
        if isinstance(error, (KeyError, IndexError)):
            raise  # a mistake of ours
        raise UsageError(str(error)) from error  # the package of a model is not installed: it says the command


def run(knowledge: "Knowledge", work: "Callable[[Knowledge], Awaitable[T]]") -> T:
    """Check that the tables are there, open the stores, and await `work`."""

    async def prepared() -> T:
        await commands.prepare(knowledge, NAME)
        async with knowledge.opened():
            return await work(knowledge)

    with usage_errors():
        return commands.run_loop(prepared())


async def find_kbs(knowledge: "Knowledge", given: Sequence[str]) -> list[uuid.UUID]:
    """Return the ids of active knowledge bases that are named, or given by id; of all, if none is given.

    Raises UsageError that lists the names if one is unknown or ambiguous.
    """
    from rowmill_systems.knowledge.models import KbStatus, KnowledgeBase

    def read(connection: sa.Connection) -> list[tuple[uuid.UUID, str]]:
        active = sa.select(KnowledgeBase.id, KnowledgeBase.name).where(KnowledgeBase.status == KbStatus.ACTIVE)
        return [(row.id, row.name) for row in connection.execute(active.order_by(KnowledgeBase.name))]

    there = await knowledge.mill.run(read, write=False)
    if not given:
        return [kb_id for kb_id, _ in there]
    return [_chosen(there, each) for each in given]


def _chosen(there: list[tuple[uuid.UUID, str]], given: str) -> uuid.UUID:
    found = [kb_id for kb_id, name in there if given in (name, str(kb_id))]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{len(found)} knowledge bases are called {given}. Give an id: {', '.join(map(str, found))}")
    names = ", ".join(dict.fromkeys(name for _, name in there)) or "none yet"
    raise UsageError(f"there is no knowledge base {given}. There are: {names}")


def parse_ids(given: Sequence[str]) -> list[uuid.UUID]:
    """Return ids of documents. Raises UsageError that names the one that is none."""
    found = []
    for each in given:
        try:
            found.append(uuid.UUID(each))
        except ValueError:
            raise UsageError(
                f"{each} is no id of a document. `rowmill systems knowledge documents` lists them"
            ) from None
    return found
