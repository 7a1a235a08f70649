"""Build filters from options, and ask before many rows are changed."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import typer
from sqlalchemy.exc import DBAPIError

from rowmill.cli.errors import is_invalid_sql, message_of, sqlstate
from rowmill.cli.exits import Exit, UsageError
from rowmill.cli.output import emit, say
from rowmill.operator.filters import Filter, Preview, parse_when

VERBS = {"prune": "DELETE"}
"""What a command does, if its name does not say it."""


def filter_from(
    state: list[str] | None = None,
    stage: str | None = None,
    error_code: str | None = None,
    since: str | None = None,
    until: str | None = None,
    where: str | None = None,
    key: list[str] | None = None,
) -> Filter:
    """Build the filter from the options."""
    return Filter(
        states=tuple(state or ()),
        stage=stage,
        error_code=error_code,
        since=None if since is None else parse_when(since),
        until=None if until is None else parse_when(until),
        where=where,
        keys=tuple(key or ()),
    )


@contextmanager
def usage_errors_in_where(wanted: Filter) -> Iterator[None]:
    """Turn a database error in --where into a usage error. Error texts that may contain values are not printed."""
    try:
        yield
    except DBAPIError as error:
        if wanted.where is None:
            raise
        if is_invalid_sql(error):
            raise UsageError(f"the database does not understand --where: {message_of(error)}") from error
        if sqlstate(error).startswith("22"):
            raise UsageError(
                f"the condition of --where fails on a row ({type(error).__name__} {sqlstate(error)})"
            ) from error
        raise


def confirmed(
    preview: Preview,
    verb: str,
    queue: str,
    *,
    yes: bool,
    dry_run: bool,
    json: bool,
    more: Mapping[str, Any] = MappingProxyType({}),
) -> bool:
    """Print a preview and ask for confirmation. Return False if there is nothing to do, or after a dry run. `more` is
    added to the JSON output."""
    about = describe(preview)
    if dry_run or not preview.rows:
        shown = f"would {VERBS.get(verb, verb)} {about}" if preview.rows else f"no rows of {queue} to {verb}"
        data: dict[str, Any] = {"queue": queue, "command": verb, "changed": 0, "dry_run": dry_run}
        data |= {"matching": preview.rows, "capped": preview.capped, "keys": preview.keys, **more}
        emit(data, json, shown)
        return False
    if yes:
        return True
    say(f"{VERBS.get(verb, verb)} {about} of {queue}")
    ask_to_change(about)
    return True


def ask_to_change(what: str) -> None:
    """Ask on the terminal before a change. Exits if the answer is no; raises UsageError without a terminal."""
    if not sys.stdin.isatty():
        raise UsageError(f"that changes {what}, and there is no terminal to ask on. Add --yes to do it")
    if not typer.confirm("Continue?", err=True):
        say("nothing was changed")
        raise typer.Exit(Exit.FAILED)


def describe(preview: Preview) -> str:
    """Describe a preview: 12 rows (1, 2, 3, 4, 5, …)."""
    more = ", …" if preview.rows > len(preview.keys) else ""
    many = f"{'more than ' if preview.capped else ''}{preview.rows:,} row{'' if preview.rows == 1 else 's'}"
    return f"{many} ({', '.join(preview.keys)}{more})"
