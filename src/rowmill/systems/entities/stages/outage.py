"""An entity whose service can't be asked: it waits, and that costs it nothing."""

from typing import TYPE_CHECKING

import rowmill as rm
from rowmill.systems.entities.models import Entity

if TYPE_CHECKING:
    from rowmill.systems.entities.entities import Entities

CANT_BE_ASKED = (rm.RateLimited, rm.ProviderRefused, rm.ProviderDown)
"""They are told to the limit of the service where they happen. Let out of a handler they would be told to its limits
too, and these are about entities of one name."""
MOST_FAILURES = 10
LONGEST_WAIT = 60.0


async def put_back(
    entities: "Entities", entity: rm.Lease[Entity], error: rm.RateLimited | rm.ProviderRefused | rm.ProviderDown
) -> rm.Again:
    """An outage is nobody's fault: the entity gets its attempt back, however long it lasts. But a service may be well
    and fail at one question again and again. While others get their answers, failures are counted, and after ten in a
    row they cost attempts."""
    waits = rm.Again(after=error.retry_after, code=error.code, message=str(error), spend=False)
    if not isinstance(error, rm.ProviderDown) or await entities.in_outage():
        return waits
    failures = entity.row.service_failures + 1
    waits.values = {"service_failures": failures}
    waits.after = min(2.0 ** (failures - 1), LONGEST_WAIT)
    if failures > MOST_FAILURES:
        waits.after, waits.spend = None, True
        if entity.last_attempt:  # whoever puts it back wants it tried anew
            waits.values = {"service_failures": 0}
    return waits
