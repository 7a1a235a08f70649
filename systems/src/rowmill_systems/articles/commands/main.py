"""`rowmill systems articles …`"""

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
    UrlOption,
    UsageError,
    emit,
    start_log,
    table,
)
from rowmill_systems.articles.commands.evaluating import evaluate
from rowmill_systems.articles.commands.loading import NAME, PrivateOption, check_classifier, load, run, usage_errors
from rowmill_systems.articles.commands.training import train

if TYPE_CHECKING:
    from fastapi import FastAPI

app = typer.Typer(no_args_is_help=True, help="Articles: feeds are synced, their articles are classified and read.")
opml = typer.Typer(no_args_is_help=True, help="Lists of feeds, as other readers exchange them.")
SHOWN = 100_000
"""Sources that `feeds` shows at most."""


def migrate(database_url: UrlOption = None, json: JsonOption = False) -> None:
    """Make the tables of articles, or bring them to this version. Tables that are there already are taken over.

    \b
    Example:
      rowmill systems articles migrate --database-url postgresql://localhost/news
    """
    with usage_errors():
        commands.migrate(load(database_url), json)


def serve(
    host: commands.HostOption = "127.0.0.1",
    port: commands.PortOption = 8000,
    name: commands.NameOption = None,
    with_worker: Annotated[
        bool, typer.Option("--with-worker", help="Fetch feeds too, in this process, not only classify.")
    ] = False,
    database_url: UrlOption = None,
    allow_private_addresses: PrivateOption = False,
    log_level: LevelOption = None,
    log_format: FormatOption = LogFormat.TEXT,
) -> None:
    """Serve the API (/openapi.json) and the pages: the feed, articles, topics, sources, the queue.

    A worker that classifies articles runs with it, unless ML_ENABLED=false. It has no users of its own: put a proxy
    before it that knows who may see it.

    \b
    Example:
      rowmill systems articles serve --with-worker
      ML_ENABLED=false rowmill systems articles serve --port 8080
    """
    # One worker for everything: a second one for articles alone would only take their rows from it.
    articles = load(
        database_url, allow_private_addresses=allow_private_addresses, ml_enabled=False if with_worker else None
    )

    if with_worker or articles.settings.ml_enabled:
        check_classifier(articles)

    def build(hosts: Sequence[str]) -> "FastAPI":
        from rowmill_systems.articles.web.app import create_app

        return create_app(articles, hosts=hosts)

    with usage_errors():
        commands.serve(
            articles, NAME, build, host=host, port=port, names=name, with_worker=with_worker,
            log_level=log_level, log_format=log_format,
        )  # fmt: skip


def work(
    processes: commands.ProcessesOption = 1,
    grace: GraceOption = None,
    database_url: UrlOption = None,
    allow_private_addresses: PrivateOption = False,
    log_level: LevelOption = None,
    log_format: FormatOption = LogFormat.TEXT,
    lifeline: commands.LifelineOption = False,
) -> None:
    """Fetch feeds when they are due, and classify articles, until told to stop. Twice: leave at once.

    \b
    Example:
      rowmill systems articles work
      ARTICLES_CONTACT=team@example.org rowmill systems articles work --processes 2
    """
    options = {
        "--database-url": commands.given_url(database_url),
        "--allow-private-addresses": allow_private_addresses or None,
    }
    articles = load(database_url, allow_private_addresses=allow_private_addresses)
    check_classifier(articles)
    with usage_errors():
        commands.work(
            articles, NAME, processes=processes, grace=grace, log_level=log_level, log_format=log_format,
            lifeline=lifeline, options=options,
        )  # fmt: skip


def add(
    addresses: Annotated[
        list[str],
        typer.Argument(metavar="URL|FILE.opml…", help="Addresses of feeds or pages, or lists of feeds in OPML."),
    ],
    topics: Annotated[
        str,
        typer.Option("--topics", metavar="TOPICS", help="Topics of the source, with commas: technology.ai,science."),
    ] = "",
    title: Annotated[str, typer.Option("--title", metavar="TITLE", help="What to call it.")] = "",
    discover: Annotated[
        bool, typer.Option("--discover/--no-discover", help="Fetch each address, and find the feed of a page.")
    ] = True,
    database_url: UrlOption = None,
    allow_private_addresses: PrivateOption = False,
    json: JsonOption = False,
) -> None:
    """Add feeds: by their address, by that of a page that names them, or by a list. Exits with 5 if some are refused.

    Their topics stand in for those of their articles, until these are classified. A feed that is there stays as it is.

    \b
    Example:
      rowmill systems articles add https://example.org/blog --topics technology.ai,science
      rowmill systems articles add subscriptions.opml
    """
    from rowmill_systems.articles.commands.adding import add_all

    start_log(None, LogFormat.TEXT, "error")
    articles = load(database_url, allow_private_addresses=allow_private_addresses)
    code = add_all(articles, addresses, topics=topics.split(","), title=title, discover=discover, json=json)
    raise typer.Exit(code)


def sync(
    once: Annotated[bool, typer.Option("--once/--again", help="Once, or again and again until stopped.")] = True,
    every: Annotated[
        float, typer.Option("--every", metavar="SECONDS", min=1.0, help="With --again: the wait between two.")
    ] = 300.0,
    database_url: UrlOption = None,
    allow_private_addresses: PrivateOption = False,
    json: JsonOption = False,
) -> None:
    """Fetch all feeds now, here, and say what was new. Exits with 5 if some failed.

    New articles wait in the queue for their topics: `work` and `serve` find these. A server that answered before is
    asked only for what changed. For a service that goes on, start `work` instead: it fetches each feed when it is due.

    \b
    Example:
      rowmill systems articles sync
    """
    from rowmill_systems.articles.commands.syncing import sync_all

    start_log(None, LogFormat.TEXT, "error")
    articles = load(database_url, allow_private_addresses=allow_private_addresses)
    with usage_errors():
        code = sync_all(articles, every=None if once else every, json=json)
    raise typer.Exit(code)


def feeds(
    failing: Annotated[bool, typer.Option("--failing", help="Only those whose last fetch failed.")] = False,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Show the feeds and how each does. Exits with 5 if one is failing.

    \b
    Example:
      rowmill systems articles feeds --failing
    """
    from rowmill_systems.articles.commands.feeds import read_feeds, show_feeds

    found = run(load(database_url), lambda connection: read_feeds(connection, failing=failing, most=SHOWN))
    emit({"feeds": found}, json, lambda: show_feeds(found))
    bad = any(each["health"] in ("failing", "failed") for each in found)
    raise typer.Exit(Exit.FINDINGS if bad else Exit.OK)


def stats(database_url: UrlOption = None, json: JsonOption = False) -> None:
    """Show the classification queue, and the sources by state.

    \b
    Example:
      rowmill systems articles stats --json
    """
    from rowmill_systems.articles.commands.feeds import read_numbers

    articles = load(database_url)
    sources, oldest = run(articles, read_numbers)
    counts = articles.requests.counts_sync()
    from rowmill_systems.articles.reads import STATUSES

    queue = {status: counts[status] for status in STATUSES}
    found = {"queue": queue, "exact": counts.exact, "oldest_pending_seconds": oldest, "sources": sources}

    def tell() -> None:
        table(["articles", "number"], [(status, f"{number:,}") for status, number in queue.items()])
        if not counts.exact:
            commands.say("the numbers of finished articles are estimates: the table is big")
        print()
        table(["sources", "number"], [(state, f"{number:,}") for state, number in sources.items()])

    emit(found, json, tell)


def requeue(
    failed: Annotated[bool, typer.Option("--failed", help="All articles that failed.")] = False,
    error: Annotated[
        str | None, typer.Option("--error", metavar="CODE", help="Only those that failed with this code.")
    ] = None,
    sources: Annotated[bool, typer.Option("--sources", help="Sources whose fetch broke the worker.")] = False,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Classify articles again that failed, with no tries counted; or fetch failed sources again.

    \b
    Example:
      rowmill systems articles requeue --failed
      rowmill systems articles requeue --error provider_down
    """
    if not failed and error is None and not sources:
        raise UsageError("say which: --failed, --error CODE, or --sources")
    articles = load(database_url)
    run(articles, lambda connection: None)
    which: dict[str, Any] = {"state": "failed"} | ({"error_code": error} if error else {})
    queue = articles.sources if sources else articles.requests
    with usage_errors():
        back = queue.requeue_sync(**which)
    emit({"requeued": back}, json, f"{back:,} are {'due' if sources else 'pending'} again")


def export(
    out: Annotated[
        Path | None, typer.Option("--out", "--output", "-o", metavar="FILE.opml", help="Otherwise stdout.")
    ] = None,
    database_url: UrlOption = None,
) -> None:
    """Write all feeds but the retired ones as a list in OPML.

    \b
    Example:
      rowmill systems articles opml export --out feeds.opml
    """
    from rowmill_systems.articles.adding import export_opml
    from rowmill_systems.parts.clock import database_time

    found = run(load(database_url), lambda connection: export_opml(connection, database_time(connection)))
    if out is None or str(out) == "-":
        print(found.decode())
        return
    try:
        out.write_bytes(found)
    except OSError as problem:
        raise UsageError(f"{out}: {problem.strerror}") from problem


opml.command("export")(export)
opml.callback()(lambda: None)
for command in (add, sync, feeds, stats, requeue, train, evaluate, serve, work, migrate):
    app.command()(command)
app.add_typer(opml, name="opml")
