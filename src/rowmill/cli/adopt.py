"""`rowmill adopt`: turn an existing table into a queue."""

import asyncio
import shlex
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from sqlalchemy import Connection

from rowmill.adopt import Adoption, AdoptOptions, carry_out, examine_queue, examine_table
from rowmill.adopt.guess import DEFAULT_LEASE
from rowmill.adopt.revision import as_revision, as_sql, find_place
from rowmill.cli.adopt_report import report, rows, show, show_step
from rowmill.cli.app import GIVEN, GlobalOptions, given_url, load_mill
from rowmill.cli.choosing import ask_to_change
from rowmill.cli.exits import Exit, UsageError
from rowmill.cli.help import SET_UP
from rowmill.cli.options import (
    AppOption,
    CancelledOption,
    ColumnOption,
    DeadOption,
    DoneOption,
    JsonOption,
    OtherOption,
    ReadyOption,
    RunningOption,
    StateColumnOption,
    UrlOption,
    WaitingOption,
    Words,
    YesOption,
)
from rowmill.cli.output import emit, one_line, say
from rowmill.mill import Mill, Queue
from rowmill.model.errors import DatabaseUnreachable, DeclarationError
from rowmill.model.lifecycle import StateKind
from rowmill.store.open import open_store, parse_url, url_from_environment
from rowmill.store.port import Store


def _where(kind: str, meaning: str) -> Any:
    text = f"In a table without a state column, the condition for {meaning}."
    return typer.Option(f"--{kind}-where", metavar="SQL", help=text)


def register(app: typer.Typer) -> None:
    app.command(rich_help_panel=SET_UP)(adopt)


def adopt(
    name: Annotated[str, typer.Argument(metavar="TABLE", help="A table of the database, or a queue of the mill.")],
    state_column: StateColumnOption = None,
    ready: ReadyOption = None,
    running: RunningOption = None,
    done: DoneOption = None,
    dead: DeadOption = None,
    waiting: WaitingOption = None,
    cancelled: CancelledOption = None,
    other: OtherOption = None,
    column: ColumnOption = None,
    new: Annotated[
        list[str] | None,
        typer.Option(
            "--new", metavar="PART", help="Add a new column for this part, or do without it: no existing column fits."
        ),
    ] = None,
    ready_where: Annotated[
        str | None, _where("ready", "rows to process. Default: all rows that match no other condition")
    ] = None,
    running_where: Annotated[str | None, _where("running", "rows in progress")] = None,
    done_where: Annotated[str | None, _where("done", "rows that are done")] = None,
    dead_where: Annotated[str | None, _where("dead", "rows that failed permanently")] = None,
    cancelled_where: Annotated[str | None, _where("cancelled", "cancelled rows")] = None,
    lower_first: Annotated[
        bool, typer.Option("--lower-first", help="Rows with a lower priority value go first.")
    ] = False,
    epoch: Annotated[Literal["s", "ms"] | None, typer.Option("--epoch", help="The unit of numeric times.")] = None,
    lease: Annotated[
        float, typer.Option("--lease", metavar="SECONDS", min=1, help="How long rows in progress are not touched.")
    ] = DEFAULT_LEASE,
    apply: Annotated[bool, typer.Option("--apply", help="Run the migration, after confirmation.")] = False,
    yes: YesOption = False,
    sure: Annotated[bool, typer.Option("--sure", help="Accept uncertain guesses as they are.")] = False,
    sql: Annotated[bool, typer.Option("--sql", help="Print only the migration, for psql or sqlite3.")] = False,
    code: Annotated[bool, typer.Option("--declaration", help="Print only the declaration, for a file.")] = False,
    alembic: Annotated[
        Path | None,
        typer.Option("--alembic", metavar="PATH", help="Write an Alembic revision to this environment or file."),
    ] = None,
    head: Annotated[
        str | None, typer.Option("--head", metavar="REVISION", help="The revision that the new one follows.")
    ] = None,
    app: AppOption = None,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Examine a table, list what it lacks to be a queue, and print the migration. With --apply, run it.

    For a table that no mill declares, Rowmill guesses the meaning of columns and words from names, types, indexes and
    rows. Options override the guess. If a guess is uncertain, nothing is changed or written until an option decides it.
    Exits with 5 if something is missing.

    \b
    Example:
      rowmill adopt enrichment_requests --database-url postgresql://localhost/crm
      rowmill adopt jobs --ready 0 --running 1 --done 2 --dead 9 --apply
      rowmill adopt mails --done-where "sent" --dead-where "bounced" --new available_at --declaration > mails.py
      rowmill adopt files --app shop:mill --alembic migrations
    """
    conditions = {
        StateKind.READY: ready_where, StateKind.RUNNING: running_where, StateKind.DONE: done_where,
        StateKind.DEAD: dead_where, StateKind.CANCELLED: cancelled_where,
    }  # fmt: skip
    where = {kind: text for kind, text in conditions.items() if text}
    if where and state_column is not None:
        raise UsageError(
            "--state-column names the state of rows, and conditions are for a table without one: say either"
        )
    choices = AdoptOptions(
        state=state_column,
        words=words_by_kind(ready, running, done, dead, waiting, cancelled),
        columns=dict(pair(text) for text in column or ()),
        new=frozenset(new or ()),
        where=where,
        others=tuple(other or ()),
        lower_first=lower_first,
        epoch=epoch,
        lease=lease,
    )
    target = find_target(name, app, database_url)
    if target.queue is not None and choices != AdoptOptions(where=where):
        raise UsageError(
            f"queue {target.queue.name} is declared: its words and columns are in your code, not in options"
        )
    asyncio.run(adopting(target, choices, AdoptMode(apply, yes, sure, sql, code, alembic, head, json)))


@dataclass(frozen=True, slots=True)
class AdoptMode:
    """What the options ask to do with the result."""

    apply: bool
    yes: bool
    sure: bool
    sql: bool
    code: bool
    alembic: Path | None
    head: str | None
    json: bool

    @property
    def only_looks(self) -> bool:
        """Whether the command only prints a report: it changes and writes nothing."""
        return not (self.apply or self.sql or self.code or self.alembic)


@dataclass(frozen=True, slots=True)
class AdoptTarget:
    """The table or queue to examine, and its database."""

    name: str
    url: str = field(repr=False)
    mill: Mill | None = None
    queue: Queue[Any] | None = None
    undeclared: str = ""
    """Why the queue can't be declared. The report then comes from the database alone, and nothing can be applied."""

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


def find_target(name: str, app: str | None, database_url: str | None) -> AdoptTarget:
    """Find a queue of the mill by its name or its table's name; otherwise a table of the database."""
    given = GIVEN.get(GlobalOptions())
    named, url = given.app if app is None else app, given_url(database_url)
    undeclared = ""
    try:
        mill = load_mill(app, database_url)
    except DeclarationError as error:
        # A guess must not stand in for what the code says. Without --app, the database may be looked at all the same.
        if named is not None:
            raise UsageError(
                f"{error}\nThe table may lack them, but your Table or class must name them first. To see the lines to "
                f"add: rowmill adopt {shlex.quote(name)} --database-url URL"
            ) from error
        undeclared = f"{error.subject} can't be declared yet: {error}"
    except UsageError:
        if named is not None:
            raise
    else:
        for queue in mill.queues.values():
            if name in (queue.name, queue.table.name, queue.table.fullname):
                return AdoptTarget(name, "", mill, queue)
        return AdoptTarget(name, url or mill.url.render_as_string(hide_password=False))
    found = url or url_from_environment()
    if not found:
        raise UsageError("which database? Say --database-url, or --app module:mill, or set DATABASE_URL")
    parsed = parse_url(found)
    if parsed.get_backend_name() == "sqlite" and not (parsed.database and Path(parsed.database).is_file()):
        raise DatabaseUnreachable(f"there is no SQLite file {parsed.database}")
    return AdoptTarget(name, found, undeclared=undeclared)


def words_by_kind(
    ready: Words, running: Words, done: Words, dead: Words, waiting: Words, cancelled: Words
) -> dict[StateKind, tuple[str, ...]]:
    """Collect the words for states that the options give."""
    given = {
        StateKind.READY: ready, StateKind.RUNNING: running, StateKind.DONE: done,
        StateKind.DEAD: dead, StateKind.WAITING: waiting, StateKind.CANCELLED: cancelled,
    }  # fmt: skip
    return {kind: tuple(words) for kind, words in given.items() if words}


def pair(text: str) -> tuple[str, str]:
    role, sign, name = text.partition("=")
    if not (role and sign and name):
        raise UsageError(f"--column takes PART=COLUMN, as in error=last_error, not {text!r}")
    return role, name


async def adopting(target: AdoptTarget, choices: AdoptOptions, way: AdoptMode) -> None:
    """Examine the table, then print, write or apply what the options ask for."""
    async with target.opened() as store:
        found = await store.run(examining(target, choices, store, elsewhere=way.alembic is not None))
        postgres = store.dialect.name == "postgresql"
        if target.undeclared:
            found.notes.insert(0, f"this is a guess from the database alone: {target.undeclared}")
        if not way.only_looks:
            check(found, target, way)
        if way.alembic is not None:
            file = write(found, way.alembic, way.head)
            emit(report(found) | {"revision": str(file)}, way.json, f"wrote {file}")
        elif way.apply:
            await applying(store, found, way)
        elif way.sql or way.code:
            say_notes(found)
            emit(None, False, partial(print, only_part(found, way, postgres=postgres)))
        else:
            emit(report(found), way.json, lambda: show(found, postgres))
            if found.plan:
                raise typer.Exit(Exit.FINDINGS)


def only_part(found: Adoption, way: AdoptMode, *, postgres: bool) -> str:
    """Return the one part that the options ask to print: SQL or declaration."""
    if way.sql and way.code:
        raise UsageError("--sql and --declaration each print one thing: say one of them")
    if way.sql:
        return as_sql(found.plan, postgres) if found.plan.changes else f"-- {one_line(found.table)}: nothing to do"
    if found.declaration is None:
        raise UsageError("this queue is declared already: --declaration is for a table that no code declares")
    return found.declaration.rstrip("\n")


def say_notes(found: Adoption) -> None:
    for note in found.notes:
        say(f"  Note: {note}")


def examining(
    target: AdoptTarget, choices: AdoptOptions, store: Store, *, elsewhere: bool
) -> Callable[[Connection], Adoption]:
    def look(connection: Connection) -> Adoption:
        if target.queue is None:
            return examine_table(connection, target.name, choices, elsewhere=elsewhere)
        return examine_queue(connection, store.sql(target.queue), target.queue, choices.where, elsewhere=elsewhere)

    return look


def check(found: Adoption, target: AdoptTarget, way: AdoptMode) -> None:
    """Refuse to change anything on an uncertain guess, or while an obstacle remains."""
    if target.undeclared:
        raise UsageError(f"not on a guess, where code says it: {target.undeclared}")
    if found.plan.obstacles:
        raise UsageError(
            "not before this is out of the way:\n" + "\n".join(f"  - {text}" for text in found.plan.obstacles)
        )
    if found.doubts and not way.sure:
        listed = "\n".join(f"  - {text}" for text in found.doubts)
        raise UsageError(
            f"not on a guess:\n{listed}\nIf every guess is right as it is shown without --apply, say --sure"
        )


def write(found: Adoption, target: Path, head: str | None) -> Path:
    place = find_place(target, found.table, head)
    place.file.parent.mkdir(parents=True, exist_ok=True)
    place.file.write_text(as_revision(found.plan, found.table, place), encoding="utf-8")
    return place.file


async def applying(store: Store, found: Adoption, way: AdoptMode) -> None:
    if not found.plan:
        emit(report(found) | {"applied": False}, way.json, f"{found.table}: nothing to do")
        return
    say(f"{found.table}, {rows(found)}:")
    if not way.yes:
        for change in found.plan.changes:
            say(f"  - {change.what}")
    say_notes(found)
    if not way.yes:
        ask_to_change("the table")
    await carry_out(store, found.plan, show_step)
    steps = len(found.plan.changes)
    text = f"{found.table} is ready: {steps} step{'' if steps == 1 else 's'} made"
    if found.declaration:
        text += f". Declare it with:\n\n{found.declaration}"
    emit(report(found) | {"applied": True}, way.json, text)
