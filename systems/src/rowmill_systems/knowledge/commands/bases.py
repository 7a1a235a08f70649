"""`rowmill systems knowledge kb …`"""

from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from rowmill.systems.commands import JsonOption, UrlOption, YesOption, ask_to_change, emit, table
from rowmill_systems.knowledge.commands.loading import find_kbs, load, run

if TYPE_CHECKING:
    from rowmill_systems.knowledge.knowledge import Knowledge

bases = typer.Typer(no_args_is_help=True, help="Create, list and delete knowledge bases.")


def create(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    description: Annotated[str, typer.Option("--description", metavar="TEXT")] = "",
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Create a knowledge base, and print its id.

    \b
    Example:
      rowmill systems knowledge kb create Handbook --description "What new colleagues ask"
    """
    from rowmill_systems.knowledge.bases import create_kb

    kb_id = run(load(database_url), lambda knowledge: create_kb(knowledge, name, description))
    emit({"id": kb_id, "name": name}, json, str(kb_id))


def show_all(database_url: UrlOption = None, json: JsonOption = False) -> None:
    """List knowledge bases, with the number of their documents.

    \b
    Example:
      rowmill systems knowledge kb list
    """
    from rowmill_systems.knowledge.bases import list_kbs

    async def read(knowledge: "Knowledge") -> list[dict[str, Any]]:
        return [
            {"id": each.kb.id, "name": each.kb.name, "documents": dict(each.documents)}
            for each in await list_kbs(knowledge)
        ]

    found = run(load(database_url), read)
    rows = [(each["id"], each["name"], sum(each["documents"].values())) for each in found]
    emit({"knowledge_bases": found}, json, lambda: table(("id", "name", "documents"), rows))


def delete(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name or id.")],
    yes: YesOption = False,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Delete a knowledge base with all of its documents, from all stores. It is hidden at once; a worker removes it.

    \b
    Example:
      rowmill systems knowledge kb delete Handbook
    """
    from rowmill_systems.knowledge.bases import list_kbs, request_kb_deletion

    async def look(knowledge: "Knowledge") -> tuple[UUID, int]:
        [kb_id] = await find_kbs(knowledge, [name])
        summary = next(each for each in await list_kbs(knowledge) if each.kb.id == kb_id)
        return kb_id, sum(summary.documents.values())

    kb_id, documents = run(load(database_url), look)
    if not yes:
        ask_to_change(f"the knowledge base {name}, which will be deleted with {documents:,} documents")
    run(load(database_url), lambda knowledge: request_kb_deletion(knowledge, kb_id))
    emit({"deleting": kb_id, "documents": documents}, json, f"deleting {name} with {documents:,} documents")


bases.command("create")(create)
bases.command("list")(show_all)
bases.command("delete")(delete)
