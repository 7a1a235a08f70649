"""Turns what a handler returned or raised into a verdict: what is written for its row. Pure and total."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never

from rowmill.model import lifecycle
from rowmill.model.errors import (
    CODE_LENGTH,
    Limited,
    ProviderDown,
    ProviderRefused,
    RateLimited,
    TransactionMisused,
    WorkError,
    code_of,
    safe_text,
    text_of,
    wait_of,
)
from rowmill.model.lease import Lease, Outcomes
from rowmill.model.lifecycle import Move
from rowmill.model.outcome import Answer, Cancel, Dead, Done, Outcome, RetryLater
from rowmill.model.retry import Retry
from rowmill.model.wait import seconds_to_wait

LONGEST_WAIT = 10 * 365 * 86400.0
"""The longest wait of a row, in seconds."""

MOST_COLUMNS = 10
"""The most columns that an error message lists."""

NO_VALUES: dict[str, Any] = {}
"""The values of verdicts that write none. Shared, and never changed."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The details of a failure, other than its code and message."""

    raised: BaseException | None = None
    at: str = ""
    """The line that raised, as file:line, for the log."""
    reason: str = ""
    """Why the database refused what the handler returned, for the log: names of constraints and columns, no values."""
    traceback: str | None = field(default=None, repr=False)
    """The traceback of what was raised, for the history, if the worker keeps it."""


@dataclass(frozen=True, slots=True)
class LateWrite:
    """Why and since when a verdict is not written yet."""

    since: float = 0.0
    """When the verdict was first seen waiting to be written, on the monotonic clock; 0 if it was not."""
    delay: str = ""
    """Why it could not be written at the last try."""
    cancelled_alone: int = 0
    """How often the database cancelled a statement that wrote this verdict alone."""
    unanswered: tuple[tuple[int, int, int], ...] = ()
    """Settles of this verdict whose answer was lost, as (worker, batch, place). Their receipts tell whether it was
    written."""


NO_FAILURE = Failure()
NOT_LATE = LateWrite()


@dataclass(slots=True)
class Verdict:
    """What the settler writes for one lease.

    One is made for every row. What few verdicts have is in `failure` and `late`, which most verdicts share.
    """

    lease: Lease[Any]
    move: Move
    wait: float = 0.0
    code: str = ""
    message: str = field(default="", repr=False)
    values: dict[str, Any] = field(default_factory=dict, repr=False)
    """The result columns by name. All exist, and none is reserved."""
    ran: float = 0.0
    """The seconds that the handler took."""
    failure: Failure = NO_FAILURE
    late: LateWrite = NOT_LATE

    @property
    def error(self) -> str:
        return safe_text(f"{self.code}: {self.message}") if self.message else self.code


def judge(lease: Lease[Any], answer: Answer | BaseException, chance: float) -> Verdict:
    """Return the verdict on what a handler returned or raised. `chance` in [0, 1) spreads the backoff."""
    if answer is None:
        return succeeded(lease)
    if type(answer) is dict:  # with None what most handlers return: no need to try every kind of outcome
        return with_values(succeeded(lease), answer)
    if isinstance(answer, Limited):
        return hold(lease, answer.retry_after, answer.code, text_of(answer))
    outcome = judge_error(lease, answer) if isinstance(answer, BaseException) else outcome_of(answer)
    match outcome:
        case Done(values, finish):
            onward = lease.step.following is not None and not finish
            move = lifecycle.ADVANCE if onward else lifecycle.DONE
            verdict = Verdict(lease, move)
        case RetryLater(after, code, message, count_attempt, values):
            move = lifecycle.AGAIN if count_attempt else lifecycle.PARK
            wait = _asked(after)
            if count_attempt and lease.last_attempt:
                move, wait = lifecycle.DIE, 0.0
            elif wait is None:
                wait, remark = _backoff(lease, chance)
                message = f"{text_of(message)} {remark}".strip() if remark else message
            verdict = Verdict(lease, move, bounded(wait), code, message)
        case Dead(code, message, values):
            verdict = Verdict(lease, lifecycle.DIE, code=code, message=message)
        case Cancel(message, values):
            move = lifecycle.ABANDON if lease.queue.can_cancel else lifecycle.DIE
            verdict = Verdict(lease, move, code="cancelled", message=message)
        case _:
            assert_never(outcome)
    return with_values(verdict, values)


def succeeded(lease: Lease[Any]) -> Verdict:
    """Return the verdict on a handler that returned None."""
    move = lifecycle.DONE if lease.step.following is None else lifecycle.ADVANCE
    return Verdict(lease, move, 0.0, "", "", NO_VALUES)  # by position: once for every row


def spread(leases: Sequence[Lease[Any]], outcomes: Outcomes) -> Mapping[Any, Any]:
    """Return the outcomes of a batch by key. A row without an outcome is done."""
    keys = [lease.key for lease in leases]
    given: Any = outcomes  # a type checker keeps nobody from giving something else
    match given:
        case None:
            return {}
        case Done() | RetryLater() | Dead() | Cancel():
            return dict.fromkeys(keys, given)
        case Mapping():
            if strange := given.keys() - set(keys):
                raise TransactionMisused(
                    f"settling() of a batch got outcomes for {len(strange)} keys that are not in it. Give one for all "
                    "rows, a mapping by lease.key, or a list in the order of the batch"
                )
            return given
        case str() | bytes():
            pass
        case Sequence() if len(given) == len(keys):
            return dict(zip(keys, given, strict=True))
        case Sequence():
            raise TransactionMisused(
                f"settling() of a batch got {len(given)} outcomes for {len(keys)} rows. Give one for each, in the "
                "order of the batch"
            )
    raise TransactionMisused(
        f"settling() of a batch takes an outcome, a mapping by key or a list of outcomes, not {type(given).__name__}"
    )


def _asked(after: Any) -> float | None:
    """Return the wait of an outcome in seconds; None for the queue's backoff. The outcome was checked when it was made,
    but user code may have changed it since."""
    try:
        return seconds_to_wait(after, "after")
    except (TypeError, ValueError):
        return None


def _backoff(lease: Lease[Any], chance: float) -> tuple[float, str]:
    """Return the wait by the queue's backoff, and a remark. The backoff is user code: if it fails, the default backoff
    is used, and the remark says so."""
    try:
        return lease.retry.wait(lease.attempt, chance), ""
    except Exception as error:
        kind = type(error).__name__
        remark = f"(the queue's backoff gave no wait: {kind}; the default was taken)"
        return Retry().wait(lease.attempt, chance), remark


def hold(lease: Lease[Any], wait: float, code: str, message: str) -> Verdict:
    """Return the verdict on a row that has to wait for a limit. It goes back without spending an attempt, and has not
    failed."""
    return Verdict(lease, lifecycle.HOLD, bounded(wait), safe_text(code, CODE_LENGTH), safe_text(message))


def bounded(wait: Any) -> float:
    """Return a wait that both databases can add to their time. Past its last year SQLite computes NULL, which would
    mean "at once", and PostgreSQL a time that Python can't read."""
    return min(max(0.0, float(wait)), LONGEST_WAIT)


def outcome_of(answer: Any) -> Outcome:
    """Return what a handler returned as an outcome. Anything that a handler may not return is a permanent failure."""
    match answer:
        case None:
            return Done()
        case Done() | RetryLater() | Dead() | Cancel():
            return answer
        case dict() | Mapping():
            return Done(answer)
        case _:
            kind = type(answer).__name__
            return Dead(
                "bad_answer",
                f"the handler returned {kind}; it may return None, column values, Done, RetryLater, Dead or Cancel",
            )


def judge_error(lease: Lease[Any], error: BaseException) -> RetryLater | Dead:
    """Return the outcome for an exception, by its type, never by its text."""
    retry = lease.retry
    code, message = code_of(error), text_of(error)
    if isinstance(error, (RateLimited, ProviderDown, ProviderRefused)):
        return RetryLater(wait_of(error), code, message, count_attempt=False)
    permanent = isinstance(error, WorkError) and not error.retryable
    if permanent or (retry.permanent and isinstance(error, retry.permanent)):
        return Dead(code, message)
    known = isinstance(error, WorkError) or (retry.transient and isinstance(error, retry.transient))
    if retry.unknown_is_permanent and not known:
        return Dead(code, message)
    return RetryLater(None, code, message)


def with_values(verdict: Verdict, values: Any) -> Verdict:
    """Set the result columns of a verdict. A column that can't be written makes it a permanent failure."""
    if not values:
        return tidy(verdict)
    lease = verdict.lease
    if not isinstance(values, (dict, Mapping)):
        return refuse(lease, "bad_values", f"values must be a mapping of columns, not {type(values).__name__}")
    try:
        named = {lease.queue.writable[name]: value for name, value in values.items()}
    except KeyError as error:
        return refuse_column(lease, error.args[0])
    # In one order: verdicts on the same columns are written by one statement.
    verdict.values = dict(sorted(named.items())) if len(named) > 1 else named
    return tidy(verdict)


def reason_of_refusal(verdict: Verdict, reason: str) -> str:
    """Return why the database refused values, with the columns that were written: the database does not always name
    one."""
    names = list(verdict.values)
    more = f" and {len(names) - MOST_COLUMNS} more" if len(names) > MOST_COLUMNS else ""
    return f"{reason}; columns written: {', '.join(names[:MOST_COLUMNS])}{more}"


def refuse_column(lease: Lease[Any], name: Any) -> Verdict:
    """Return a permanent failure for a column that does not exist or that a handler may not write."""
    column = lease.queue.names.get(name)
    if column is None:
        return refuse(lease, "unknown_column", f"table {lease.queue.table.name} has no column {name}")
    return refuse(
        lease, "reserved_column", f"column {column.name} belongs to the queue; answer with an outcome instead"
    )


def refuse(lease: Lease[Any], code: str, message: str) -> Verdict:
    """Return a permanent failure because of what the handler returned."""
    return tidy(Verdict(lease, lifecycle.DIE, code=code, message=message))


def tidy(verdict: Verdict) -> Verdict:
    if verdict.move.failed:
        verdict.code = safe_text(text_of(verdict.code) or verdict.move.name, CODE_LENGTH)
        verdict.message = safe_text(text_of(verdict.message))
    return verdict
