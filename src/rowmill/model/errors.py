"""Every error that Rowmill raises, and those that a handler may raise.

RowmillError
├── DeclarationError      a queue, schedule or reconciliation is declared wrongly; lists every problem with its fix
│   └── TableMismatch     the table in the database is not as the queue declares it; a SchemaMismatch too
├── DatabaseUnreachable   the database does not answer, or refuses us
├── SchemaMismatch        Rowmill's own tables are missing or of another version
│   └── MissingRights     the role may not do what it has to
├── LeaseLost             somebody else holds the row now; nothing was written
├── TransactionMisused    a `settling()` block was used in a way that would write twice, or not at all; says the way
├── ColumnNotLoaded       a column of a claimed row was left out of the claim; says how to fetch it
├── UnknownQueue          no queue of that name in the mill
├── UnknownRow            no row with that key
├── ReconciliationBusy    another process runs this reconciliation just now
├── InventoryError        an inventory is not what it has to be: out of order, a key twice, keys of another type
├── UnknownOption         an option of that name does not exist; says the nearest one that does
├── BadRequest            what was asked for can't be done; says what can
└── WorkError             what a handler raises to say how it failed: `retryable` or not, with a `code`
    ├── TransientError    try again, after the backoff
    │   ├── RateLimited      the provider asks us to wait: costs no attempt
    │   ├── ProviderDown     the provider is away: costs no attempt
    │   ├── ProviderRefused  the provider does not take our credentials: costs no attempt
    │   └── Limited          a limit of ours has no room: costs no attempt, and is no failure
    └── PermanentError    never try again
"""

from collections.abc import Sequence
from typing import Any

from rowmill.model.wait import Wait, seconds_to_wait

USUAL_WAIT = 60.0
"""Seconds to leave a provider alone that does not say for how long, or not in a form that can be read."""
MESSAGE_LENGTH = 1000
CODE_LENGTH = 100


class RowmillError(Exception):
    """Base of everything that Rowmill raises."""


class DeclarationError(RowmillError):
    """A queue, a schedule or a reconciliation is declared wrongly. `problems` holds all of them, each with its fix."""

    summary = "cannot be declared"

    def __init__(self, subject: str, problems: Sequence[str], kind: str = "queue") -> None:
        self.subject = subject
        self.problems = tuple(problems)
        lines = "".join(f"\n  - {problem}" for problem in self.problems)
        super().__init__(f"{kind} {subject} {self.summary}:{lines}")


class DatabaseUnreachable(RowmillError):
    """The database does not answer, or refuses us."""


class SchemaMismatch(RowmillError):
    """Rowmill's own tables are missing or of another version."""


class TableMismatch(DeclarationError, SchemaMismatch):
    """The table of a queue is missing, lacks columns, or can't hold what the queue writes."""

    summary = "does not fit its table in the database"


class MissingRights(SchemaMismatch):
    """The database role lacks privileges. The message lists them, and names the command that prints the grants."""


class LeaseLost(RowmillError):
    """Somebody else holds the row now, so nothing of this attempt was written."""


class TransactionMisused(RowmillError):
    """A `settling()` block was used in a way that would write twice, or not at all. Nothing was written; the message
    says what to do instead."""


class ColumnNotLoaded(RowmillError, AttributeError):
    """A handler read a column that was left out of the claim."""

    def __init__(self, column: str) -> None:
        super().__init__(
            f"column {column} was left out of the claim. Read it with: await lease.fetch({column!r}), "
            f"or lease.fetch_sync({column!r}) in a plain function"
        )
        self.column = column


class UnknownQueue(RowmillError):
    """The mill has no queue of that name."""


class UnknownRow(RowmillError):
    """The table has no row with that key."""


class ReconciliationBusy(RowmillError):
    """Another process runs this reconciliation just now, or took it over from us."""


class InventoryError(RowmillError):
    """An inventory is out of order, has a key twice or has keys of another type. Nothing is concluded from it."""


class UnknownOption(RowmillError, TypeError):
    """An option of that name does not exist. The message names the nearest one that does."""


class BadRequest(RowmillError):
    """The request can't be carried out. The message says what can be asked for instead."""


class WorkError(RowmillError):
    """Base of what a handler raises to say how it failed. `code` is stable and fit for logs and filters; `retryable`
    says whether the row is tried again."""

    code = "error"
    retryable = True

    def __init__(self, message: str = "", *, code: str | None = None, retryable: bool | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code
        if retryable is not None:
            self.retryable = retryable


class TransientError(WorkError):
    """Try again, after the backoff."""

    code = "transient"

    def __init__(self, message: str = "", *, code: str | None = None) -> None:
        super().__init__(message, code=code)


class PermanentError(WorkError):
    """Never try again."""

    code = "permanent"
    retryable = False

    def __init__(self, message: str = "", *, code: str | None = None) -> None:
        super().__init__(message, code=code)


class ValuesRefused(PermanentError):
    """The database refused the values with which a handler's `settling()` block was to settle its row."""

    code = "value_refused"

    def __init__(self, reason: str) -> None:
        super().__init__(f"the database refused the values: {reason}")
        self.reason = reason


class RateLimited(TransientError):
    """The provider asks us to wait `retry_after` seconds. Costs no attempt.

    `retry_after` may be seconds, a timedelta, a datetime with a time zone, or the Retry-After header as it came. Text
    that is neither a number nor a date counts as not given: 60 seconds. The same holds for ProviderDown and
    ProviderRefused.
    """

    code = "rate_limited"

    def __init__(self, message: str = "", *, retry_after: Wait | None = None, code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.retry_after = told_to_wait(retry_after)


class ProviderDown(TransientError):
    """The provider is away. Costs no attempt; the row is tried again after `retry_after` seconds."""

    code = "provider_down"

    def __init__(self, message: str = "", *, retry_after: Wait | None = None, code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.retry_after = told_to_wait(retry_after)


class ProviderRefused(TransientError):
    """The provider does not take our credentials (401, 403). Costs no attempt. Inside a limit's block it switches the
    provider off, until `rowmill limits on`."""

    code = "provider_refused"

    def __init__(self, message: str = "", *, retry_after: Wait | None = None, code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.retry_after = told_to_wait(retry_after)


class Limited(TransientError):
    """A limit of ours has no room now; it may have in `retry_after` seconds. A handler that does not catch it gives its
    row back until then. That costs no attempt and is no failure."""

    def __init__(self, limit: str, key: str, reason: str, retry_after: float) -> None:
        super().__init__(f"{limit} {key}" if key else limit, code=f"limit_{reason}")
        self.limit = limit
        self.key = key
        self.reason = reason
        self.retry_after = retry_after


def told_to_wait(retry_after: Any) -> float:
    """Return the seconds for which to leave a provider alone. Text comes from the provider: if it can't be read, return
    the default. A value of a wrong type is a mistake of the handler's and raises TypeError."""
    try:
        seconds = seconds_to_wait(retry_after, "retry_after")
    except ValueError:
        if not isinstance(retry_after, str):
            raise
        seconds = None
    return USUAL_WAIT if seconds is None else seconds


def wait_of(error: RateLimited | ProviderDown | ProviderRefused) -> float:
    """Return the `retry_after` of an exception in seconds. Its class may be a user's own, so that the attribute may be
    missing or wrong: then return the default."""
    try:
        return told_to_wait(getattr(error, "retry_after", None))
    except (TypeError, ValueError):
        return USUAL_WAIT


def code_of(error: BaseException) -> str:
    """Return the stable code of an exception: its own `code`, or the name of its class."""
    name = type(error).__name__
    if not isinstance(error, WorkError):
        return safe_text(name, CODE_LENGTH)
    try:
        return safe_text(str(error.code), CODE_LENGTH)
    except Exception:
        return safe_text(name, CODE_LENGTH)


def text_of(thing: Any) -> str:
    """Return the text of anything that a handler raised or returned, empty for None. Survives a `__str__` that
    raises."""
    try:
        return "" if thing is None else str(thing)
    except Exception as error:
        return f"(its text can't be read: {type(error).__name__})"


def one_line(text: str) -> str:
    """Return text in one line, without characters that move the cursor of a terminal or begin another line of a log."""
    return text if text.isprintable() else "".join(char if char.isprintable() else " " for char in text)


def safe_text(text: str, length: int = MESSAGE_LENGTH) -> str:
    """Return text that every database takes: without NUL and lone surrogates, cut to a length."""
    clean = text.replace("\x00", "\N{REPLACEMENT CHARACTER}")
    clean = clean.encode("utf-8", "replace").decode("utf-8")
    return clean if len(clean) <= length else clean[: length - 1] + "…"
