"""Send an event to what handles its type."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import rowmill as rm
from rowmill_systems.knowledge.events.deleting import delete_document
from rowmill_systems.knowledge.events.deleting_kb import delete_kb
from rowmill_systems.knowledge.events.failing import declare_sweep
from rowmill_systems.knowledge.events.outcomes import FREE, detect_wrong_settings, outcome_of
from rowmill_systems.knowledge.events.processing import process_document
from rowmill_systems.knowledge.events.reembedding import reembed_kb
from rowmill_systems.knowledge.events.reprocessing import reprocess_document
from rowmill_systems.knowledge.events.sweeping import sweep_document
from rowmill_systems.knowledge.queues import DELETE, EVENT_TYPES, KB_DELETE, KB_REEMBED, PROCESS, REPROCESS, SWEEP

if TYPE_CHECKING:
    from rowmill_systems.knowledge.knowledge import Knowledge

Handler = Callable[["Knowledge", rm.outbox.Event], Awaitable[rm.Outcome | None]]
HANDLERS: dict[str, Handler] = {
    PROCESS: process_document,
    DELETE: delete_document,
    REPROCESS: reprocess_document,
    SWEEP: sweep_document,
    KB_DELETE: delete_kb,
    KB_REEMBED: reembed_kb,
}


async def dispatch_event(knowledge: "Knowledge", event: rm.outbox.Event) -> rm.Outcome | None:
    """Handle an event by its type. An unknown type is parked by the outbox, which logs a warning."""
    try:
        outcome = await HANDLERS[event.type](knowledge, event)
    except (rm.errors.LeaseLost, *FREE):
        raise
    except Exception as error:
        failure = outcome_of(await detect_wrong_settings(knowledge, error))
        if not failure.count_attempt:
            return failure
        # With the traceback, which says where it failed in the log and the history of the event.
        raise rm.TransientError(failure.message, code=failure.code).with_traceback(error.__traceback__) from error
    if outcome is None:
        knowledge.logged_problems.clear()
    return outcome


def handle(knowledge: "Knowledge") -> None:
    """Register the handler of all types, and the schedule that follows up on dead events."""

    @knowledge.outbox.on(*EVENT_TYPES)
    async def handle_event(event: rm.outbox.Event) -> rm.Outcome | None:
        return await dispatch_event(knowledge, event)

    declare_sweep(knowledge.mill)
