"""`rowmill systems articles add`: feeds by address, by page, or by lists in OPML."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rowmill.errors import WorkError
from rowmill.systems import commands
from rowmill.systems.commands import Exit, StopSignals, UsageError, emit, progress, run_loop, table
from rowmill_systems.articles.commands.loading import NAME, usage_errors

if TYPE_CHECKING:
    from rowmill_systems.articles.articles import Articles


@dataclass
class AddResult:
    """What became of the addresses and lists of one command."""

    added: list[dict[str, Any]] = field(default_factory=list)
    refused: list[dict[str, str]] = field(default_factory=list)


def is_list(given: str) -> bool:
    """Return whether an argument is a file: one that exists, or that is called like a list."""
    return "://" not in given and (Path(given).is_file() or given.lower().endswith((".opml", ".xml")))


def add_all(
    articles: "Articles", given: Sequence[str], *, topics: Sequence[str], title: str, discover: bool, json: bool
) -> int:
    """Add feeds, and print what became of each. Return the exit code."""
    from rowmill_systems.articles.feeds.opml import MOST_BYTES, read_opml
    from rowmill_systems.articles.managing import checked_topics

    with usage_errors():
        wanted = checked_topics(topics)
    lists = {each: _read(each, MOST_BYTES) for each in given if is_list(each)}
    for each, content in lists.items():
        with usage_errors(each):
            read_opml(content)
    told = StopSignals()
    told.listen()

    async def work() -> AddResult:
        await commands.prepare(articles, NAME)
        result = AddResult()
        async with articles.opened():
            with progress("Adding", len(given)) as seen:
                for number, each in enumerate(given, 1):
                    if each in lists:
                        await _add_list(articles, lists[each], wanted, result)
                    else:
                        await _add_one(articles, each, wanted, title, discover, result)
                    seen(number)
        return result

    result = run_loop(told.run_until_stopped(work))
    if result is None:
        return told.code
    _report(result, json)
    return Exit.FINDINGS if result.refused else Exit.OK


def _read(name: str, most: int) -> bytes:
    try:
        with Path(name).open("rb") as file:
            return file.read(most + 1)
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}") from error


async def _add_one(
    articles: "Articles", url: str, topics: Sequence[str], title: str, discover: bool, result: AddResult
) -> None:
    from rowmill_systems.articles.adding import add_address, add_source

    given = list(topics) or None
    try:
        if discover:
            found = await add_address(articles, url, title=title, topics=given)
        else:
            found = [await articles.mill.run(lambda connection: add_source(connection, url, title=title, topics=given))]
    except WorkError as error:
        result.refused.append({"url": url, "code": error.code, "message": str(error)})
        return
    result.added += [_added(each) for each in found]


async def _add_list(articles: "Articles", content: bytes, topics: Sequence[str], result: AddResult) -> None:
    from rowmill_systems.articles.adding import add_sources
    from rowmill_systems.articles.feeds.opml import read_opml

    feeds = read_opml(content)
    found = await articles.mill.run(
        lambda connection: add_sources(connection, feeds, topics=list(topics) or None, strict=False)
    )
    result.added += [_added(each) for each in found.added]
    result.refused += [{"url": url, "code": code, "message": code} for url, code in found.refused.items()]


def _added(source: Any) -> dict[str, Any]:
    return {**asdict(source), "id": str(source.id)}


def _report(result: AddResult, json: bool) -> None:
    def show() -> None:
        rows = [(each["url"], each["title"], "added" if each["created"] else "was there") for each in result.added]
        rows += [(each["url"], "", f"refused: {each['message']}") for each in result.refused]
        table(("source", "title", ""), rows)

    emit({"added": result.added, "refused": result.refused}, json, show)
