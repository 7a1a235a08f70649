"""From an error to an exit code and one line that says what happened and what to do. Never what is in a row."""

import re
import sqlite3

from sqlalchemy.exc import DBAPIError

from rowmill.cli.app import GIVEN, GlobalOptions
from rowmill.cli.exits import Exit
from rowmill.cli.output import say
from rowmill.model.errors import BadRequest, DatabaseUnreachable, RowmillError, SchemaMismatch, UnknownQueue
from rowmill.observe.trail import trail
from rowmill.store.port import Disconnected
from rowmill.store.sqlite.writer import connection_problem

MISSING = ("42P01", "42703", "3F000")
"""PostgreSQL: no such table, column, schema."""
MISTAKES = r"syntax error|no such (column|function)|incomplete input|unrecognized token|wrong number of arguments"
"""SQLite: what it says to SQL that it can't read."""


def tell(error: BaseException) -> Exit:
    """Say what went wrong; answers the exit code."""
    if GIVEN.get(GlobalOptions()).debug:
        say(trail(error))
    code, text = explain(error)
    say(f"rowmill: {text}")
    return code


def explain(error: BaseException) -> tuple[Exit, str]:
    """The exit code for an error, and what to tell."""
    match error:
        case BadRequest() | UnknownQueue():
            return Exit.USAGE, str(error)
        case DatabaseUnreachable():
            return Exit.UNREACHABLE, str(error)
        case Disconnected() if isinstance(error.__cause__, DBAPIError):
            return explain_database(error.__cause__)
        case Disconnected():
            return Exit.UNREACHABLE, f"the connection to the database broke ({error}). Try again"
        case SchemaMismatch():
            return Exit.SCHEMA, str(error)
        case RowmillError():
            return Exit.FAILED, str(error)
        case DBAPIError():
            return explain_database(error)
        case ConnectionError() | TimeoutError():
            return Exit.UNREACHABLE, f"the database does not answer ({type(error).__name__}). Is it running?"
        case _:
            return Exit.FAILED, f"unexpected {type(error).__name__}. See where: rowmill --debug …"


def explain_database(error: DBAPIError) -> tuple[Exit, str]:
    """A statement failed. The database's own words are passed on only where they name things, not values."""
    state, message = sqlstate(error), own_words(error)
    name = getattr(error.orig, "sqlite_errorname", "")
    if state in MISSING or re.match(r"no such (table|column)|table .* has no column", message):
        return Exit.SCHEMA, (
            f"{message}. Is this the right database? "
            "Missing tables are made by: rowmill migrate --tables; missing columns by: rowmill adopt"
        )
    if state == "25006" or name.startswith("SQLITE_READONLY"):
        return Exit.FAILED, "the database is read-only: nothing was changed"
    if state.startswith("22"):
        return Exit.FAILED, f"a value does not fit its column ({type(error).__name__} {state})"
    if state == "42501":
        return Exit.SCHEMA, (
            f"{message}. Use another role, or grant it: rowmill grants --role NAME prints what a worker needs, with "
            "--operator what an operator does"
        )
    if error.connection_invalidated or state[:2] in ("08", "53", "57") or is_busy(error):
        return Exit.UNREACHABLE, f"the database does not answer ({state or name or type(error).__name__}). Try again"
    return (
        Exit.FAILED,
        f"the database refused a statement ({type(error).__name__} {state or name}). See: rowmill --debug …",
    )


def is_busy(error: DBAPIError) -> bool:
    return isinstance(error.orig, sqlite3.OperationalError) and connection_problem(error.orig)


def sqlstate(error: DBAPIError) -> str:
    return str(getattr(error.orig, "sqlstate", None) or "")


def own_words(error: DBAPIError) -> str:
    """The first line of what the database said, without the statement and its values."""
    lines = str(error.orig).splitlines()
    return re.sub(r"^<class '[^']*'>: ", "", lines[0]) if lines else type(error).__name__


def is_fault_of_the_statement(error: DBAPIError) -> bool:
    """Is the SQL itself wrong, so that its author can mend it?"""
    state = sqlstate(error)
    if state:
        return state.startswith("42") and state not in ("42P01", "42501")
    return re.search(MISTAKES, own_words(error)) is not None
