"""`rowmill systems entities kb`: build and search a knowledge base."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rowmill.systems import commands
from rowmill.systems.commands import JsonOption, UsageError, emit, progress, table

if TYPE_CHECKING:
    from rowmill_systems.entities.linking.choose import Scored
    from rowmill_systems.entities.settings import EntitiesSettings
    from rowmill_systems.entities.things import Link
    from rowmill_systems.parts.names.types import EntityType

KbOption = Annotated[
    Path | None,
    typer.Option(
        "--kb", metavar="FILE", help="The embedded knowledge base. Otherwise ENTITIES_KNOWLEDGE_BASE, or what ships."
    ),
]
NEEDED = "entities needs packages that are not installed ({}). Run: pip install 'rowmill-systems[entities]'"


app = typer.Typer(no_args_is_help=True, help="The embedded knowledge base: build one of your own, search it.")


def build(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE", help="JSON Lines, or CSV if it ends so: a thing per line.", exists=True, dir_okay=False
        ),
    ],
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="The file to make, or to replace.", dir_okay=False)],
    json: JsonOption = False,
) -> None:
    """Make a knowledge base of a file. Whatever is wrong in it is said by line, and nothing is made then.

    \b
    Example:
      rowmill systems entities kb build companies.csv companies.kb
      ENTITIES_KNOWLEDGE_BASE=companies.kb rowmill systems entities work
    """
    try:
        from rowmill_systems.entities.kb import build as making
    except ImportError as error:
        raise UsageError(NEEDED.format(error.name)) from error
    with progress("Things") as told:
        report = making.build(source, target, told)
    emit(
        {"target": str(target), "things": report.things, "names": report.names, "bytes": report.bytes},
        json,
        f"{target}: {report.things:,} things with {report.names:,} names, {report.bytes:,} bytes",
    )


def search(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As somebody wrote it.")],
    type: Annotated[str | None, typer.Option("--type", metavar="TYPE", help="What it is: person, ORG, city…")] = None,
    context: Annotated[str, typer.Option("--context", metavar="TEXT", help="Words around the name.")] = "",
    kb: KbOption = None,
    json: JsonOption = False,
) -> None:
    """Say what the knowledge base has for a name, how likely each is meant, and which would be linked.

    \b
    Example:
      rowmill systems entities kb search "Ada Lovelace" --type person
      rowmill systems entities kb search Paris --context "the capital of France" --kb places.kb
    """
    try:
        from rowmill_systems.entities.settings import EntitiesSettings
    except ImportError as error:
        raise UsageError(NEEDED.format(error.name)) from error
    settings = commands.settings_from(EntitiesSettings, knowledge_base=kb)
    ranked, link = asyncio.run(_ask(settings, name, known_type(type), context))
    why = verdict(ranked, link, settings)
    emit({"candidates": [_told(one) for one in ranked], "link": link, "verdict": why}, json, lambda: _show(ranked, why))


def known_type(word: str | None) -> "EntityType | None":
    from rowmill_systems.entities.linking.types import type_of
    from rowmill_systems.parts.names.types import EntityType

    if word is None:
        return None
    found = type_of(word)
    if found is None:
        raise UsageError(f"there is no type {word}. There are: {', '.join(EntityType)}, and many words for them")
    return found


async def _ask(
    settings: "EntitiesSettings", name: str, type: "EntityType | None", context: str
) -> "tuple[list[Scored], Link | None]":
    from rowmill_systems.entities.kb.base import open_knowledge_base
    from rowmill_systems.entities.linking.choose import choose, rank
    from rowmill_systems.entities.sources.embedded import EmbeddedSource
    from rowmill_systems.entities.things import Mention

    knowledge_base = open_knowledge_base(settings.knowledge_base)
    try:
        mention = Mention(name, type, context)
        candidates = await EmbeddedSource(knowledge_base).candidates(mention)
    finally:
        knowledge_base.close()
    link = choose(mention, candidates, threshold=settings.link_threshold, gap=settings.link_gap).link
    return rank(mention, candidates), link


def verdict(ranked: "list[Scored]", link: "Link | None", settings: "EntitiesSettings") -> str:
    """Return which candidate would be linked, or why none."""
    if link is not None:
        return f"would be linked to {link.label} ({link.confidence:.2f})"
    if not ranked:
        return "would not be linked: nothing is called so"
    best = ranked[0].score
    if best < settings.link_threshold:
        return f"would not be linked: the best has {best:.2f}, and {settings.link_threshold:.2f} is needed"
    return f"would not be linked: another one is too close to the best ({best:.2f} and {ranked[1].score:.2f})"


def _told(scored: "Scored") -> dict[str, Any]:
    best = scored.candidates[0]
    return {
        "score": round(scored.score, 4),
        "parts": scored.parts,
        "id": best.id,
        "name": best.name,
        "types": sorted(best.types),
        "description": best.description,
        "wikidata_id": best.wikidata_id,
        "dbpedia_uri": best.dbpedia_uri,
    }


def _show(ranked: "list[Scored]", why: str) -> str:
    if ranked:
        rows = [
            (f"{one.score:.2f}", best.name, ", ".join(sorted(best.types)), best.id, best.wikidata_id, best.description)
            for one in ranked
            for best in one.candidates[:1]
        ]
        table(("score", "name", "type", "id", "wikidata", "description"), rows)
    return why


app.command()(build)
app.command()(search)
