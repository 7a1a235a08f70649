"""What teams call their states and columns. Order matters: of two that fit, the earlier one is taken."""

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
"""Of several words for "in progress", those that mean nothing else. Only these are taken together: a row under
a word for running is given back when its lease ends, so a guess too many would repeat work."""

CODES: tuple[dict[StateKind, int], ...] = (
    {StateKind.READY: 0, StateKind.RUNNING: 1, StateKind.DONE: 2, StateKind.DEAD: 3, StateKind.CANCELLED: 4},
    {StateKind.READY: 0, StateKind.RUNNING: 1, StateKind.DONE: 2, StateKind.DEAD: -1},
    {StateKind.READY: 1, StateKind.RUNNING: 2, StateKind.DONE: 3, StateKind.DEAD: 4, StateKind.CANCELLED: 5},
    {StateKind.READY: 0, StateKind.RUNNING: 10, StateKind.DONE: 20, StateKind.DEAD: 30, StateKind.CANCELLED: 40},
)
"""Integer codes as teams number them; a guess, to be confirmed."""

SAME_AS_DONE = frozenset({"done", "completed", "complete", "finished", "success", "succeeded", "successful", "ok"})
"""Of several words for "done", those that mean nothing else. Of others, one may be a phase on the way to the next:
processed, then sent, then delivered."""

STATE_NAMES = ("status", "state")
WEAK_STATE_NAMES = ("stage", "phase", "step", "progress")
PAYLOAD_STATES = frozenset(
    {"old", "new", "prev", "previous", "from", "to", "last", "next", "target", "desired", "expected", "before", "after",
     "initial", "final", "original", "http", "response", "source", "remote"}
)  # fmt: skip
"""How the name of a state begins that a row reports: the old and the new state of something else."""

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
"""Names that say what a column is for. A limit comes before the count that it limits."""

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
"""Names that may be those of a part, or of what the row is about: only what the rows hold can tell."""

SUFFIXES: dict[str, tuple[str, ...]] = {
    "attempts": ("attempts", "retries", "tries", "attempt_count", "retry_count"),
}
"""How names end that may be those of a part, or of something else: cleanup_attempts, login_attempts."""

STARTS = frozenset({"next", "scheduled", "schedule", "planned", "due", "execution", "after"})
"""A time with one of these in its name may say when something may begin: next_fetch_at, execution_time."""

PAST = frozenset({"last", "latest", "previous", "prev", "first"})
"""A time with one of these in its name has been."""

EXPIRY = frozenset({"expires", "expire", "expired", "expiry", "expiration", "ttl"})
ENDS = EXPIRY | {"deadline", "until", "timeout", "ends"}
"""A time with one of these in its name may well lie ahead: it is when something ends, not when it may begin."""

NUMBERED = ("attempt", "attempt_number", "attempt_no", "retry_number")
"""Of the names for attempts, those that may number the tries of something, a row for each."""

TALLIES = ("error_count", "failure_count", "fail_count", "failures")
"""Of the names for attempts, those that may count what failed within a row's work, beside what did not."""

TALLIED = frozenset(
    {"success", "successes", "succeeded", "successful", "total", "rows", "items", "records", "processed"}
)
"""In the names of other numbers, what says that a row counts the parts of its work."""

SUCCESSES = ("sent_at", "delivered_at", "published_at", "dispatched_at", "consumed_at", "resolved_at")
"""Of the names for the end, those that only a success is called by."""

FAILURES = (
    "retry_count", "retries", "num_retries", "failure_count", "fail_count", "error_count", "failures",
    "failed_attempts", "retried", "retry", "n_retries", "number_of_retries", "retry_number",
)  # fmt: skip
"""Of the names for attempts, those whose readers take them for the tries that failed."""

PREFIXES = ("queue_", "rowmill_")
"""For a column to be added whose name is taken."""

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
"""Booleans that stand in for a state where there is none; also with is_, has_ or was_. A row is what the first of them
says that is set."""

STATE_TIMES: dict[StateKind, tuple[str, ...]] = {
    StateKind.DEAD: ("failed_at", "dead_at", "rejected_at", "gave_up_at"),
    StateKind.CANCELLED: ("cancelled_at", "canceled_at", "archived_at", "deleted_at", "discarded_at", "skipped_at"),
    StateKind.RUNNING: (
        "locked_at", "claimed_at", "reserved_at", "picked_at", "picked_up_at", "taken_at", "started_at",
        "processing_started_at", "processing_at", "performed_at",
    ),
}  # fmt: skip
"""Times that stand in for a state where there is none: the row is in it once the time is set."""

HELD_BACK = ("paused", "on_hold", "suspended", "blocked", "disabled")
"""Booleans that keep a row from being worked on, beside those for cancelled."""

WRITTEN: dict[StateKind, str] = {
    StateKind.READY: "pending",
    StateKind.RUNNING: "processing",
    StateKind.DONE: "done",
    StateKind.DEAD: "failed",
}
"""What to call a state for which a table has no word yet."""


def plain(name: str) -> str:
    """A name or word without its style: processingStatus, "Processing Status" and PROCESSING-STATUS are one."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip())
    return re.sub(r"[^a-z0-9]+", "_", spaced.lower()).strip("_")


CLOCKS = frozenset({"utc", "gmt", "tz", "ts", "dt", "timestamp"})
"""How names of times may end that say no more by it: processed_at_utc, next_retry_dt."""


def spellings(name: str) -> list[str]:
    """Under which of our names a column may be looked up, in one word: processed_at, ProcessedAtUtc and processedat are
    one, and next_retry_dt is next_retry or next_retry_at."""
    parts = plain(name).split("_")
    found = ["".join(parts)]
    if len(parts) > 1 and parts[-1] in CLOCKS:
        short = "".join(parts[:-1])
        found += [short, f"{short}at"]
    return found


def is_called(name: str, names: Iterable[str]) -> bool:
    """Is a column of this name called by one of our names?"""
    return not {one.replace("_", "") for one in names}.isdisjoint(spellings(name))


def flag_kind(name: str) -> StateKind | None:
    """The state that a boolean of this name stands for."""
    short = without_verb(name)
    return next((kind for kind, names in FLAGS.items() if is_called(short, names)), None)


def without_verb(name: str) -> str:
    """The plain name of a boolean without its is_, has_ or was_."""
    return re.sub(r"^(is|has_been|has|was)_", "", plain(name))


def phases(words: list[str]) -> list[str]:
    """Of words (plain) that mean nothing to us, those that sound like a phase: fetching, fetched."""
    return [word for word in words if re.search(r"(?:ing|ed)$", word) and len(word) > 4]


def counts_failures(column: str) -> bool:
    """Does the name of a column say that it counts failed tries?"""
    name = plain(column)
    return any(name == one or name.endswith(f"_{one}") for one in FAILURES)


def meaning(word: str, others: frozenset[str]) -> StateKind | None:
    """What a word means beside the other words of its table (both plain). "waiting" waits for its next try where
    there is another word for ready."""
    found = [kind for kind, words in WORDS.items() if word in words]
    if found == [StateKind.READY, StateKind.WAITING]:
        ready = set(WORDS[StateKind.READY]) - set(WORDS[StateKind.WAITING])
        return StateKind.WAITING if ready & others else StateKind.READY
    return found[0] if found else None


def shared_prefix(words: list[str]) -> str:
    """What all of these words begin with, up to a "_": STATUS_ of STATUS_NEW and STATUS_DONE."""
    if len(words) < 2:
        return ""
    first, last = min(words), max(words)
    same = next((n for n, char in enumerate(first) if n >= len(last) or char != last[n]), len(first))
    return first[: first.rfind("_", 0, same) + 1]


def in_style(word: str, others: list[str]) -> str:
    """A new word that looks like those that are there."""
    if others and all(other.isupper() for other in others):
        return word.upper()
    if others and all(other[:1].isupper() for other in others):
        return word.title()
    return word
