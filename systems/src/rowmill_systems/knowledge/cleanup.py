"""Delete what is kept no longer: old events, logins that are over, and what unfinished uploads left in the storage."""

import logging
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import rowmill as rm
from rowmill_systems.knowledge.accounts.tokens import remove_expired
from rowmill_systems.knowledge.logs import log_event

if TYPE_CHECKING:
    from rowmill_systems.knowledge.knowledge import Knowledge


@dataclass(frozen=True, slots=True)
class CleanupCounts:
    """What a clean-up deleted."""

    processed_events: int
    dead_events: int
    logins: int
    unfinished_files: int | None
    """None if the storage could not be reached."""


async def cleanup(knowledge: "Knowledge") -> CleanupCounts:
    """Delete processed events by when they were processed, dead ones by when they were created, in batches.

    Idempotent; two at once do no harm.
    """
    settings, outbox = knowledge.settings, knowledge.mill[knowledge.outbox.queue.name]
    counts = CleanupCounts(
        processed_events=await outbox.prune(rm.days(settings.keep_processed_days), state="done"),
        dead_events=await outbox.prune(rm.days(settings.keep_dead_days), state="dead"),
        logins=await remove_expired(knowledge),
        unfinished_files=await sweep_storage(knowledge),
    )
    log_event("outbox.cleaned", **asdict(counts))
    return counts


async def sweep_storage(knowledge: "Knowledge") -> int | None:
    """Remove what killed uploads left before it had a key. A storage that is away is swept tomorrow."""
    try:
        return await knowledge.storage.sweep()
    except rm.errors.WorkError as error:
        log_event("storage.not_swept", level=logging.WARNING, code=error.code)
        return None
