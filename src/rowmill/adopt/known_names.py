"""Names that teams use for states and columns. The order matters: the first match wins."""

import re
from collections.abc import Iterable

from rowmill.model.lifecycle import StateKind

WORDS: dict[StateKind, tuple[str, ...]] = {
    StateKind.READY: (
        "pending", "queued", "ready", "new", "todo", "to_do", "enqueued", "unprocessed", "not_started",
        "submitted", "received", "requested", "open", "created", "scheduled", "waiting", "available", "initial",
    ),
    StateKind.WAITING: (
        "retry", "retrying", "to_retry", "retry_scheduled", "waiting_retry", "waiting_for_retry", "retry_wait",
        "deferred", "delayed", "backoff", "postponed", "retryable", "waiting", "scheduled",
    ),
    StateKind.RUNNING: (
        "processing", "in_progress", "running", "inprogress", "in_process", "working", "started", "executing",
        "claimed", "leased", "locked", "taken", "picked", "active", "busy", "doing", "wip", "sending", "progressing",
    ),
    StateKind.DONE: (
        "done", "completed", "complete", "finished", "success", "succeeded", "successful", "processed", "ok",
        "sent", "delivered", "published", "resolved", "closed",
    ),
    StateKind.DEAD: (
        "dead", "failed", "error", "errored", "failure", "exhausted", "abandoned", "permanently_failed",
        "failed_permanently", "permanent_failure", "dead_letter", "dead_lettered", "gave_up", "given_up", "fatal",
        "poison", "rejected", "invalid", "discarded",
    ),
    StateKind.CANCELLED: (
        "cancelled", "canceled", "skipped", "ignored", "aborted", "withdrawn", "obsolete", "dropped", "revoked",
    ),
}  # fmt: skip

SAME_AS_RUNNING = frozenset(
    {"processing", "in_progress", "running", "inprogress", "in_process", "working", "executing"}
)
"""Words for "in progress" with no other meaning. Only these are merged. A row under a running word returns to the queue
when its lease expires, so one wrong guess would repeat work."""

CODES: tuple[dict[StateKind, int], ...] = (
    {StateKind.READY: 0, StateKind.RUNNING: 1, StateKind.DONE: 2, StateKind.DEAD: 3, StateKind.CANCELLED: 4},
    {StateKind.READY: 0, StateKind.RUNNING: 1, StateKind.DONE: 2, StateKind.DEAD: -1},
    {StateKind.READY: 1, StateKind.RUNNING: 2, StateKind.DONE: 3, StateKind.DEAD: 4, StateKind.CANCELLED: 5},
    {StateKind.READY: 0, StateKind.RUNNING: 10, StateKind.DONE: 20, StateKind.DEAD: 30, StateKind.CANCELLED: 40},
)
"""Common integer codes for states. Guesses, to be confirmed."""

SAME_AS_DONE = frozenset({"done", "completed", "complete", "finished", "success", "succeeded", "successful", "ok"})
"""Words for "done" with no other meaning. Other words may be phases: processed, then sent, then delivered."""

STATE_NAMES = ("status", "state")
WEAK_STATE_NAMES = ("stage", "phase", "step", "progress")
PAYLOAD_STATES = frozenset(
    {"old", "new", "prev", "previous", "from", "to", "last", "next", "target", "desired", "expected", "before", "after",
     "initial", "final", "original", "http", "response", "source", "remote"}
)  # fmt: skip
"""Prefixes of state columns that describe another thing: its old and new state."""

NAMES: dict[str, tuple[str, ...]] = {
    "max_attempts": (
        "max_attempts", "max_retries", "max_tries", "max_retry", "max_retry_count", "max_attempt_count",
        "maximum_attempts", "maximum_retries", "attempts_limit", "attempt_limit", "retry_limit", "retries_limit",
        "allowed_attempts", "allowed_retries",
    ),
    "attempts": (
        "attempts", "attempt_count", "attempts_count", "attempts_made", "attempt", "retry_count", "retries",
        "retry_attempts", "num_attempts", "num_retries", "try_count", "tries", "failure_count", "fail_count",
        "error_count", "failures", "failed_attempts", "retried", "retry", "attempt_number", "attempt_no", "n_attempts",
        "n_retries", "number_of_attempts", "number_of_retries", "times_tried", "retry_number",
    ),
    "available_at": (
        "available_at", "next_retry_at", "next_attempt_at", "next_run_at", "next_try_at", "retry_at", "run_at",
        "run_after", "not_before", "process_after", "available_from", "available_after", "visible_at",
        "scheduled_at", "scheduled_for", "execute_at", "next_retry", "next_attempt", "retry_after",
        "scheduled_time", "schedule_time", "scheduled_on", "scheduled_date", "scheduled", "scheduled_to", "schedule_at",
        "consume_after", "execute_after", "visible_after", "visible_from", "delayed_until", "delay_until",
        "deferred_until", "postponed_until", "snoozed_until", "next_retry_time", "next_attempt_time", "next_run_time",
        "next_run", "next_try", "next_execution", "next_execution_at", "retry_time", "run_time_at", "perform_at",
        "process_at", "eta", "wake_at", "resume_at", "not_before_time", "earliest_start", "invisible_until",
        "hidden_until",
    ),
    "leased_until": (
        "leased_until", "lease_until", "locked_until", "lease_expires_at", "lease_expires", "lock_expires_at",
        "reserved_until", "claimed_until", "lease_expiry", "lock_expiry", "lock_until", "lease_deadline",
    ),
    "error": (
        "error", "last_error", "error_message", "last_error_message", "error_msg", "error_text", "failure_reason",
        "fail_reason", "last_failure", "failure_message", "exception", "failure", "err", "err_text", "err_msg",
        "err_message", "errmsg", "last_err", "error_reason", "error_detail", "error_details", "error_description",
        "error_info", "failed_reason", "failure_text", "failure_msg", "failure_detail", "failure_details",
        "fail_message", "fail_msg", "exception_message", "exception_text", "last_exception",
    ),
    "error_code": ("error_code", "last_error_code", "failure_code", "err_code"),
    "finished_at": (
        "finished_at", "processed_at", "completed_at", "done_at", "ended_at", "sent_at", "delivered_at", "finished_on",
        "completed_on", "processed_on", "time_finished", "time_completed", "time_processed", "time_done",
        "finish_time", "finished_time", "completion_time", "completed_time", "processed_time", "date_processed",
        "date_completed", "handled_at", "dispatched_at", "executed_at", "consumed_at", "finalized_at", "finalised_at",
    ),
    "started_at": (
        "started_at", "claimed_at", "locked_at", "picked_at", "picked_up_at", "taken_at", "reserved_at",
        "begun_at", "processing_started_at", "time_started", "performed_at", "processing_at",
    ),
    "created_at": (
        "created_at", "inserted_at", "enqueued_at", "queued_at", "created_on", "created", "date_created",
        "creation_date", "create_time", "added_at", "received_at", "submitted_at", "time_created", "created_time",
        "creation_time", "create_date", "created_date", "inserted_on", "date_added", "added_on", "time_added",
        "enqueue_time", "enqueued_on", "insert_time", "inserted",
    ),
    "updated_at": (
        "updated_at", "modified_at", "changed_at", "last_updated", "updated_on", "updated", "modified_on",
        "update_time", "last_modified_at", "last_updated_at", "time_updated", "updated_time", "date_updated",
    ),
    "priority": ("priority", "prio", "urgency", "importance"),
}  # fmt: skip
"""Names that identify the role of a column. A limit comes before the count that it limits."""

WEAK_NAMES: dict[str, tuple[str, ...]] = {
    "available_at": (
        "due_at", "due", "due_on", "due_date", "due_time", "send_at", "send_after", "publish_at", "publish_on",
        "deliver_at", "start_at", "start_after", "starts_at", "start_date", "notify_at", "remind_at", "trigger_at",
        "fire_at", "effective_at", "effective_from", "valid_from", "planned_at", "planned_for", "delay", "when", "at",
    ),
    "finished_at": ("published_at", "resolved_at", "closed_at", "end_time", "end_at", "end_date", "ends_at"),
    "started_at": ("start_time", "begin_at", "begin_time"),
    "updated_at": ("last_modified", "modified", "last_changed", "changed"),
}  # fmt: skip
"""Names that may identify a role or describe the row's subject. Only the rows can tell."""

SUFFIXES: dict[str, tuple[str, ...]] = {
    "attempts": ("attempts", "retries", "tries", "attempt_count", "retry_count"),
}
"""Suffixes of names that may identify a role or something else: cleanup_attempts, login_attempts."""

STARTS = frozenset({"next", "scheduled", "schedule", "planned", "due", "execution", "after"})
"""Parts of the names of times at which something may start: next_fetch_at, execution_time."""

PAST = frozenset({"last", "latest", "previous", "prev", "first"})
"""Parts of the names of times in the past."""

EXPIRY = frozenset({"expires", "expire", "expired", "expiry", "expiration", "ttl"})
ENDS = EXPIRY | {"deadline", "until", "timeout", "ends"}
"""Parts of the names of times at which something ends. They may lie in the future, and are no start times."""

NUMBERED = ("attempt", "attempt_number", "attempt_no", "retry_number")
"""Names for attempts that may number the tries of something, with one row per try."""

TALLIES = ("error_count", "failure_count", "fail_count", "failures")
"""Names for attempts that may count failed parts of a row's work."""

TALLIED = frozenset(
    {"success", "successes", "succeeded", "successful", "total", "rows", "items", "records", "processed"}
)
"""Parts of the names of other columns that show that a row counts parts of its work."""

SUCCESSES = ("sent_at", "delivered_at", "published_at", "dispatched_at", "consumed_at", "resolved_at")
"""Names for the end time that are used for successes only."""

FAILURES = (
    "retry_count", "retries", "num_retries", "failure_count", "fail_count", "error_count", "failures",
    "failed_attempts", "retried", "retry", "n_retries", "number_of_retries", "retry_number",
)  # fmt: skip
"""Names for attempts that usually count failed tries only."""

PREFIXES = ("queue_", "rowmill_")
"""Prefixes for a new column whose name is taken."""

FLAGS: dict[StateKind, tuple[str, ...]] = {
    StateKind.DONE: (
        "processed", "done", "completed", "complete", "finished", "delivered", "sent", "handled", "consumed",
        "dispatched", "executed", "acknowledged", "acked", "published",
    ),
    StateKind.DEAD: ("dead", "failed", "error", "errored", "gave_up", "given_up", "rejected"),
    StateKind.CANCELLED: ("cancelled", "canceled", "archived", "deleted", "skipped", "ignored", "discarded", "aborted"),
    StateKind.RUNNING: (
        "locked", "processing", "in_progress", "running", "claimed", "taken", "reserved", "busy", "picked",
    ),
}  # fmt: skip
"""Boolean columns that imply a state in a table without a state column; also with is_, has_ or was_. The first that is
set counts."""

STATE_TIMES: dict[StateKind, tuple[str, ...]] = {
    StateKind.DEAD: ("failed_at", "dead_at", "rejected_at", "gave_up_at"),
    StateKind.CANCELLED: ("cancelled_at", "canceled_at", "archived_at", "deleted_at", "discarded_at", "skipped_at"),
    StateKind.RUNNING: (
        "locked_at", "claimed_at", "reserved_at", "picked_at", "picked_up_at", "taken_at", "started_at",
        "processing_started_at", "processing_at", "performed_at",
    ),
}  # fmt: skip
"""Time columns that imply a state in a table without a state column: the row is in that state once the time is set."""

HELD_BACK = ("paused", "on_hold", "suspended", "blocked", "disabled")
"""Boolean columns that exclude a row from processing, besides those for cancelled."""

WRITTEN: dict[StateKind, str] = {
    StateKind.READY: "pending",
    StateKind.RUNNING: "processing",
    StateKind.DONE: "done",
    StateKind.DEAD: "failed",
}
"""Default words for states."""


def plain(name: str) -> str:
    """Normalize a name or word: processingStatus, "Processing Status" and PROCESSING-STATUS are the same."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip())
    return re.sub(r"[^a-z0-9]+", "_", spaced.lower()).strip("_")


CLOCKS = frozenset({"utc", "gmt", "tz", "ts", "dt", "timestamp"})
"""Suffixes of time columns that add no meaning: processed_at_utc, next_retry_dt."""


def spellings(name: str) -> list[str]:
    """Return the known names that a column may match, in one word each. processed_at, ProcessedAtUtc and processedat
    are the same; next_retry_dt matches next_retry or next_retry_at."""
    parts = plain(name).split("_")
    found = ["".join(parts)]
    if len(parts) > 1 and parts[-1] in CLOCKS:
        short = "".join(parts[:-1])
        found += [short, f"{short}at"]
    return found


def is_called(name: str, names: Iterable[str]) -> bool:
    """Return whether a column's name matches one of these names."""
    return not {one.replace("_", "") for one in names}.isdisjoint(spellings(name))


def flag_kind(name: str) -> StateKind | None:
    """Return the state that a boolean column of this name implies."""
    short = without_verb(name)
    return next((kind for kind, names in FLAGS.items() if is_called(short, names)), None)


def without_verb(name: str) -> str:
    """Return the normalized name of a boolean column without is_, has_ or was_."""
    return re.sub(r"^(is|has_been|has|was)_", "", plain(name))


def phases(words: list[str]) -> list[str]:
    """Return the unknown words that sound like phases: fetching, fetched."""
    return [word for word in words if re.search(r"(?:ing|ed)$", word) and len(word) > 4]


def counts_failures(column: str) -> bool:
    """Return whether the column's name says that it counts failed tries."""
    name = plain(column)
    return any(name == one or name.endswith(f"_{one}") for one in FAILURES)


def meaning(word: str, others: frozenset[str]) -> StateKind | None:
    """Return the meaning of a normalized word, given the other words of its table. "waiting" means waiting for a retry
    if there is another word for ready."""
    found = [kind for kind, words in WORDS.items() if word in words]
    if found == [StateKind.READY, StateKind.WAITING]:
        ready = set(WORDS[StateKind.READY]) - set(WORDS[StateKind.WAITING])
        return StateKind.WAITING if ready & others else StateKind.READY
    return found[0] if found else None


def shared_prefix(words: list[str]) -> str:
    """Return the common prefix of these words, up to a "_": STATUS_ for STATUS_NEW and STATUS_DONE."""
    if len(words) < 2:
        return ""
    first, last = min(words), max(words)
    same = next((n for n, char in enumerate(first) if n >= len(last) or char != last[n]), len(first))
    return first[: first.rfind("_", 0, same) + 1]


def in_style(word: str, others: list[str]) -> str:
    """Return a new word in the style of the existing ones."""
    if others and all(other.isupper() for other in others):
        return word.upper()
    if others and all(other[:1].isupper() for other in others):
        return word.title()
    return word
