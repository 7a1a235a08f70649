"""An entity whose service is away: it waits, and that costs it nothing."""

from typing import TYPE_CHECKING

import rowmill as rm
from rowmill.systems.entities.models import Entity

if TYPE_CHECKING:
    from rowmill.systems.entities.entities import Entities

MOST_FAILURES = 10
LONGEST_WAIT = 60.0


async def put_back(entities: "Entities", entity: rm.Lease[Entity], error: rm.ProviderDown) -> rm.Again:
    """An outage is nobody's fault: the entity gets its attempt back, however long it lasts. But a service may be well
    and fail at one question again and again. While others get their answers, failures are counted, and after ten in a
    row they cost attempts."""
    if await entities.in_outage():
        return rm.Again(after=error.retry_after, code=error.code, message=str(error), spend=False)
    failures = entity.row.service_failures + 1
    values = {"service_failures": failures}
    if failures > MOST_FAILURES:
        return rm.Again(code=error.code, message=str(error), values=values)
    wait = min(2.0 ** (failures - 1), LONGEST_WAIT)
    return rm.Again(after=wait, code=error.code, message=str(error), spend=False, values=values)
