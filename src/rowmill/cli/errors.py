"""Turn an error into an exit code and one line: what happened, and what to do. Never prints row contents."""

import re

from sqlalchemy.exc import DBAPIError

from rowmill.cli.app import GIVEN, GlobalOptions
from rowmill.cli.exits import Exit
from rowmill.cli.output import say
from rowmill.model.errors import BadRequest, DatabaseUnreachable, RowmillError, SchemaMismatch, UnknownQueue
from rowmill.observe.trail import trail
from rowmill.store.port import Disconnected

MISSING = ("42P01", "42703", "3F000")
"""SQLSTATEs of PostgreSQL for a missing table, column or schema."""
MISTAKES = r"syntax error|no such (column|function)|incomplete input|unrecognized token|wrong number of arguments"
"""SQLite's messages about invalid SQL."""


def print_error(error: BaseException) -> Exit:
    """Print an error on stderr. Return the exit code."""
    if GIVEN.get(GlobalOptions()).debug:
        say(trail(error))
    code, text = explain(error)
    say(f"rowmill: {text}")
    return code


def explain(error: BaseException) -> tuple[Exit, str]:
    """Return the exit code and the message for an error."""
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
    """Explain a failed statement. The database's message is included only if it names objects, not values."""
    state, message = sqlstate(error), message_of(error)
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
    import sqlite3  # here, since a worker on PostgreSQL does not need it

    from rowmill.store.sqlite.writer import connection_problem

    return isinstance(error.orig, sqlite3.OperationalError) and connection_problem(error.orig)


def sqlstate(error: DBAPIError) -> str:
    return str(getattr(error.orig, "sqlstate", None) or "")


def message_of(error: DBAPIError) -> str:
    """Return the first line of the database's message, without the statement and its values."""
    lines = str(error.orig).splitlines()
    return re.sub(r"^<class '[^']*'>: ", "", lines[0]) if lines else type(error).__name__


def is_invalid_sql(error: DBAPIError) -> bool:
    """Return whether the SQL itself is wrong, so that its author can fix it."""
    state = sqlstate(error)
    if state:
        return state.startswith("42") and state not in ("42P01", "42501")
    return re.search(MISTAKES, message_of(error)) is not None
