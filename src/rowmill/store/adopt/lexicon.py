"""What teams call their states and columns. Order matters: of two that fit, the earlier one is taken."""

import re

from rowmill.model.lifecycle import Kind

WORDS: dict[Kind, tuple[str, ...]] = {
    Kind.READY: (
        "pending", "queued", "ready", "new", "todo", "to_do", "enqueued", "unprocessed", "not_started",
        "submitted", "received", "requested", "open", "created", "scheduled", "waiting", "available", "initial",
    ),
    Kind.WAITING: (
        "retry", "retrying", "to_retry", "retry_scheduled", "waiting_retry", "waiting_for_retry", "retry_wait",
        "deferred", "delayed", "backoff", "postponed", "waiting", "scheduled",
    ),
    Kind.RUNNING: (
        "processing", "in_progress", "running", "inprogress", "in_process", "working", "started", "executing",
        "claimed", "leased", "locked", "taken", "picked", "active", "busy", "doing", "wip", "sending",
    ),
    Kind.DONE: (
        "done", "completed", "complete", "finished", "success", "succeeded", "successful", "processed", "ok",
        "sent", "delivered", "published", "resolved", "closed",
    ),
    Kind.DEAD: (
        "dead", "failed", "error", "errored", "failure", "exhausted", "abandoned", "permanently_failed",
        "failed_permanently", "permanent_failure", "dead_letter", "gave_up", "given_up", "fatal", "poison",
        "rejected", "invalid",
    ),
    Kind.CANCELLED: (
        "cancelled", "canceled", "skipped", "ignored", "aborted", "withdrawn", "obsolete", "dropped",
    ),
}  # fmt: skip

SAME_AS_RUNNING = frozenset(
    {"processing", "in_progress", "running", "inprogress", "in_process", "working", "executing"}
)
"""Of several words for "in progress", those that mean nothing else. Only these are taken together: a row under
a word for running is given back when its lease ends, so a guess too many would repeat work."""

CODES: tuple[dict[Kind, int], ...] = (
    {Kind.READY: 0, Kind.RUNNING: 1, Kind.DONE: 2, Kind.DEAD: 3, Kind.CANCELLED: 4},
    {Kind.READY: 0, Kind.RUNNING: 1, Kind.DONE: 2, Kind.DEAD: -1},
    {Kind.READY: 1, Kind.RUNNING: 2, Kind.DONE: 3, Kind.DEAD: 4, Kind.CANCELLED: 5},
    {Kind.READY: 0, Kind.RUNNING: 10, Kind.DONE: 20, Kind.DEAD: 30, Kind.CANCELLED: 40},
)
"""Integer codes as teams number them; a guess, to be confirmed."""

STATE_NAMES = ("status", "state")
WEAK_STATE_NAMES = ("stage", "phase", "step", "progress")

NAMES: dict[str, tuple[str, ...]] = {
    "attempts": (
        "attempts", "attempt_count", "attempts_count", "attempts_made", "attempt", "retry_count", "retries",
        "retry_attempts", "num_attempts", "num_retries", "try_count", "tries", "failure_count", "fail_count",
        "error_count", "failures", "failed_attempts",
    ),
    "available_at": (
        "available_at", "next_retry_at", "next_attempt_at", "next_run_at", "next_try_at", "retry_at", "run_at",
        "run_after", "not_before", "process_after", "available_from", "available_after", "visible_at",
        "scheduled_at", "scheduled_for", "execute_at", "due_at", "next_retry", "next_attempt", "retry_after",
    ),
    "leased_until": (
        "leased_until", "lease_until", "locked_until", "lease_expires_at", "lease_expires", "lock_expires_at",
        "reserved_until", "claimed_until",
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
        "finished_at", "processed_at", "completed_at", "done_at", "ended_at", "resolved_at", "sent_at",
        "published_at", "delivered_at", "finished_on", "completed_on", "end_time",
    ),
    "started_at": (
        "started_at", "claimed_at", "locked_at", "picked_at", "picked_up_at", "taken_at", "reserved_at",
        "begun_at", "start_time",
    ),
    "created_at": (
        "created_at", "inserted_at", "enqueued_at", "queued_at", "created_on", "created", "date_created",
        "creation_date", "create_time", "added_at", "received_at", "submitted_at",
    ),
    "updated_at": (
        "updated_at", "modified_at", "changed_at", "last_modified", "last_updated", "updated_on", "updated",
        "modified", "update_time", "last_modified_at",
    ),
    "priority": ("priority", "prio", "urgency", "importance"),
}  # fmt: skip

FAILURES = (
    "retry_count", "retries", "num_retries", "failure_count", "fail_count", "error_count", "failures",
    "failed_attempts",
)  # fmt: skip
"""Of the names for attempts, those whose readers take them for the tries that failed."""

PREFIXES = ("queue_", "rowmill_")
"""For a column to be added whose name is taken."""

FLAGS = ("processed", "done", "completed", "finished", "is_processed", "is_done", "is_completed")
"""Booleans that stand in for a state where there is none."""

WRITTEN: dict[Kind, str] = {
    Kind.READY: "pending",
    Kind.RUNNING: "processing",
    Kind.DONE: "done",
    Kind.DEAD: "failed",
}
"""What to call a state for which a table has no word yet."""


def plain(name: str) -> str:
    """A name or word without its style: processingStatus, "Processing Status" and PROCESSING-STATUS are one."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip())
    return re.sub(r"[^a-z0-9]+", "_", spaced.lower()).strip("_")


def counts_failures(column: str) -> bool:
    """Does the name of a column say that it counts failed tries?"""
    name = plain(column)
    return any(name == one or name.endswith(f"_{one}") for one in FAILURES)


def meaning(word: str, others: frozenset[str]) -> Kind | None:
    """What a word means beside the other words of its table (both plain). "waiting" waits for its next try where
    there is another word for ready."""
    found = [kind for kind, words in WORDS.items() if word in words]
    if found == [Kind.READY, Kind.WAITING]:
        ready = set(WORDS[Kind.READY]) - set(WORDS[Kind.WAITING])
        return Kind.WAITING if ready & others else Kind.READY
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
