"""Say in a few words what keeps entities waiting."""

from datetime import UTC, datetime

from rowmill.worker import Worker
from rowmill_systems.entities.entities import Entities

COMMAND = "rowmill --app rowmill_systems.entities.app:mill"


async def waits(entities: Entities, worker: Worker) -> str:
    """Return the services that can't be asked now, and the stages that an operator paused."""
    found = [f"{stage} of {queue} is paused: {COMMAND} resume {queue}" for queue, stage in worker.paused]
    for name, limit in entities.limits.items():
        state = await limit.state()
        if state.off:
            found.append(f"{name} is off: {COMMAND} limits on {limit.name}")
        elif until := state.parked_until or (state.open_until if state.breaker == "open" else None):
            found.append(f"waiting for {name} until {clock(until)}")
    return "; ".join(found)


def clock(moment: datetime) -> str:
    """Return the local time with its zone."""
    zoned = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return zoned.astimezone().strftime("%H:%M %Z")
