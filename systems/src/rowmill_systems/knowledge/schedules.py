"""Compare the stores every hour, and clean up every night, once in the whole fleet.

A tick that is lost, doubled or late is harmless: one comparison goes on at a time, and a clean-up deletes what is old.
"""

from typing import TYPE_CHECKING

import rowmill as rm
from rowmill_systems.knowledge.cleanup import cleanup
from rowmill_systems.knowledge.consistency.checking import check_on_schedule

if TYPE_CHECKING:
    from rowmill_systems.knowledge.knowledge import Knowledge

RECONCILE, CLEANUP = "reconcile_data_consistency", "cleanup_processed_outbox_events"


def declare_schedules(knowledge: "Knowledge") -> None:
    """Declare both schedules, unless the settings leave them to another scheduler."""
    settings = knowledge.settings
    if not settings.schedules:
        return

    @knowledge.mill.schedule(RECONCILE, cron=settings.reconcile_cron)
    async def reconcile_stores(tick: rm.schedules.Tick) -> None:
        await check_on_schedule(knowledge)

    @knowledge.mill.schedule(CLEANUP, cron=settings.cleanup_cron)
    async def clean_up(tick: rm.schedules.Tick) -> None:
        await cleanup(knowledge)
