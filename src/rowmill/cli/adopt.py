"""`rowmill adopt`: from a table that is there already to a queue."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from sqlalchemy import Connection

from rowmill.cli.adopt_report import report, rows, show, tell
from rowmill.cli.app import GIVEN, Given, given_url, load_mill
from rowmill.cli.exits import Exit, UsageError
from rowmill.cli.help import SET_UP
from rowmill.cli.options import AppOption, JsonOption, UrlOption, YesOption
from rowmill.cli.output import emit, say
from rowmill.mill import Mill, Queue
from rowmill.model.errors import DatabaseUnreachable, DeclarationError
from rowmill.model.lifecycle import Kind
from rowmill.store.adopt import Adoption, Wishes, carry_out, examine_queue, examine_table
from rowmill.store.adopt.guess import DEFAULT_LEASE
from rowmill.store.adopt.revision import as_revision, find_place
from rowmill.store.open import open_store, parse_url, url_from_environment
from rowmill.store.port import Store

Words = list[str] | None


def _word(kind: str, meaning: str) -> Any:
    return typer.Option(f"--{kind}", metavar="WORD", help=f"A word for {meaning}; may be given several times.")


def register(app: typer.Typer) -> None:
    app.command(rich_help_panel=SET_UP)(adopt)


def adopt(
    name: Annotated[str, typer.Argument(metavar="TABLE", help="A table of the database, or a queue of the mill.")],
    state_column: Annotated[
        str | None, typer.Option("--state-column", metavar="COLUMN", help="The column that holds the state.")
    ] = None,
    ready: Annotated[Words, _word("ready", "rows to work on")] = None,
    running: Annotated[Words, _word("running", "rows in progress")] = None,
    done: Annotated[Words, _word("done", "rows that are done")] = None,
    dead: Annotated[Words, _word("dead", "rows that failed for good")] = None,
    waiting: Annotated[Words, _word("waiting", "rows that wait for their next try")] = None,
    cancelled: Annotated[Words, _word("cancelled", "rows that are no longer wanted")] = None,
    column: Annotated[
        list[str] | None,
        typer.Option("--column", metavar="PART=COLUMN", help="Which column plays a part, as in error=last_error."),
    ] = None,
    lower_first: Annotated[bool, typer.Option("--lower-first", help="A lower priority goes first.")] = False,
    epoch: Annotated[
        Literal["s", "ms"] | None, typer.Option("--epoch", help="The unit of times that are numbers.")
    ] = None,
    lease: Annotated[
        float, typer.Option("--lease", metavar="SECONDS", min=1, help="How long rows in progress are left alone.")
    ] = DEFAULT_LEASE,
    apply: Annotated[bool, typer.Option("--apply", help="Do it, after asking.")] = False,
    yes: YesOption = False,
    sure: Annotated[bool, typer.Option("--sure", help="What is doubtful is right as it is.")] = False,
    alembic: Annotated[
        Path | None,
        typer.Option("--alembic", metavar="PATH", help="Write an Alembic revision into this environment or file."),
    ] = None,
    head: Annotated[
        str | None, typer.Option("--head", metavar="REVISION", help="What the Alembic revision follows.")
    ] = None,
    app: AppOption = None,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Look at a table, say what it lacks to be a queue, and print the migration; --apply makes it.

    A table that no mill declares is looked at without one: what its columns and words mean is guessed, unless the
    options say it. Exits with 5 when something is missing and was only looked at.

    \b
    Example:
      rowmill adopt enrichment_requests --database-url postgresql://localhost/crm
      rowmill adopt jobs --ready 0 --running 1 --done 2 --dead 9 --apply
      rowmill adopt files --app shop:mill --alembic migrations
    """
    words = {
        Kind.READY: ready, Kind.RUNNING: running, Kind.DONE: done,
        Kind.DEAD: dead, Kind.WAITING: waiting, Kind.CANCELLED: cancelled,
    }  # fmt: skip
    wishes = Wishes(
        state=state_column,
        words={kind: tuple(given) for kind, given in words.items() if given},
        columns=dict(pair(text) for text in column or ()),
        lower_first=lower_first,
        epoch=epoch,
        lease=lease,
    )
    target = find_target(name, app, database_url)
    if target.queue is not None and wishes != Wishes():
        raise UsageError(
            f"queue {target.queue.name} is declared: its words and columns are in your code, not in options"
        )
    asyncio.run(adopting(target, wishes, Way(apply, yes, sure, alembic, head, json)))


@dataclass(frozen=True, slots=True)
class Way:
    """What to do with what is found."""

    apply: bool
    yes: bool
    sure: bool
    alembic: Path | None
    head: str | None
    json: bool


@dataclass(frozen=True, slots=True)
class Target:
    """What to look at, and where."""

    name: str
    url: str = field(repr=False)
    mill: Mill | None = None
    queue: Queue[Any] | None = None

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        if self.mill is not None:
            async with self.mill.opened() as store:
                yield store
            return
        store = open_store(parse_url(self.url))
        await store.open()
        try:
            yield store
        finally:
            await store.close()


def find_target(name: str, app: str | None, database_url: str | None) -> Target:
    """A queue of the mill by its name or its table's; otherwise a table of the database."""
    given = GIVEN.get(Given())
    named, url = app or given.app, given_url(database_url)
    try:
        mill = load_mill(app, database_url)
    except DeclarationError as error:
        # The mill can't be made because its tables lack columns: that is what we are here for.
        say(f"{error.subject} can't be declared yet: looking at the database alone")
    except UsageError:
        if named:
            raise
    else:
        for queue in mill.queues.values():
            if name in (queue.name, queue.table.name, queue.table.fullname):
                return Target(name, "", mill, queue)
        return Target(name, url or mill.url.render_as_string(hide_password=False))
    found = url or url_from_environment()
    if not found:
        raise UsageError("which database? Say --database-url, or --app module:mill, or set DATABASE_URL")
    parsed = parse_url(found)
    if parsed.get_backend_name() == "sqlite" and not (parsed.database and Path(parsed.database).is_file()):
        raise DatabaseUnreachable(f"there is no SQLite file {parsed.database}")
    return Target(name, found)


def pair(text: str) -> tuple[str, str]:
    role, sign, name = text.partition("=")
    if not (role and sign and name):
        raise UsageError(f"--column takes PART=COLUMN, as in error=last_error, not {text!r}")
    return role, name


async def adopting(target: Target, wishes: Wishes, way: Way) -> None:
    """Look, then do what was asked for."""
    async with target.opened() as store:
        found = await store.run(looking(target, wishes, store, elsewhere=way.alembic is not None))
        postgres = store.dialect.name == "postgresql"
        if way.alembic is not None or way.apply:
            check(found, way)
        if way.alembic is not None:
            file = write(found, way.alembic, way.head)
            emit(report(found) | {"revision": str(file)}, way.json, f"wrote {file}")
        elif way.apply:
            await applying(store, found, way)
        else:
            emit(report(found), way.json, lambda: show(found, postgres))
            if found.plan:
                raise typer.Exit(Exit.FINDINGS)


def looking(target: Target, wishes: Wishes, store: Store, *, elsewhere: bool) -> Callable[[Connection], Adoption]:
    def look(connection: Connection) -> Adoption:
        if target.queue is None:
            return examine_table(connection, target.name, wishes, elsewhere=elsewhere)
        return examine_queue(connection, store.terms(target.queue), target.queue, elsewhere=elsewhere)

    return look


def check(found: Adoption, way: Way) -> None:
    """Nothing is changed on a guess, or past an obstacle."""
    if found.plan.obstacles:
        raise UsageError(
            "not before this is out of the way:\n" + "\n".join(f"  - {text}" for text in found.plan.obstacles)
        )
    if found.doubts and not way.sure:
        listed = "\n".join(f"  - {text}" for text in found.doubts)
        raise UsageError(f"not on a guess:\n{listed}\nIf the guess is right, say --sure")


def write(found: Adoption, target: Path, head: str | None) -> Path:
    place = find_place(target, found.table, head)
    place.file.parent.mkdir(parents=True, exist_ok=True)
    place.file.write_text(as_revision(found.plan, found.table, place), encoding="utf-8")
    return place.file


async def applying(store: Store, found: Adoption, way: Way) -> None:
    if not found.plan:
        emit(report(found) | {"applied": False}, way.json, f"{found.table}: nothing to do")
        return
    if not way.yes:
        say(f"{found.table}, {rows(found)}:")
        for change in found.plan.changes:
            say(f"  - {change.what}")
        for note in found.notes:
            say(f"  Note: {note}")
        if not sys.stdin.isatty():
            raise UsageError("that changes the table, and there is no terminal to ask on. Add --yes to do it")
        if not typer.confirm("Go on?", err=True):
            say("nothing was changed")
            raise typer.Exit(Exit.FAILED)
    await carry_out(store, found.plan, tell)
    steps = len(found.plan.changes)
    text = f"{found.table} is ready: {steps} step{'' if steps == 1 else 's'} made"
    if found.declaration:
        text += f". Declare it with:\n\n{found.declaration}"
    emit(report(found) | {"applied": True}, way.json, text)
