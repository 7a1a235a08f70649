"""An entity whose service can't be asked: it waits, and what that costs."""

from typing import TYPE_CHECKING

import rowmill as rm

if TYPE_CHECKING:
    from rowmill_systems.entities.entities import Entities

CANT_BE_ASKED = (rm.RateLimited, rm.errors.ProviderRefused, rm.errors.ProviderDown, rm.errors.Limited)
"""They are told to the limit of the service where they happen. Let out of a handler they would be told to its limits
too, and these are about entities of one name."""
OF_THE_SERVICE = ("off", "parked", "open")
"""Reasons of a limit that say how the service is. The others say that we have no room."""


async def put_back(
    entities: "Entities", error: rm.RateLimited | rm.errors.ProviderRefused | rm.errors.ProviderDown | rm.errors.Limited
) -> rm.RetryLater:
    """A failure of the service costs an attempt, unless the whole fleet knows that it is down or was asked to wait.
    With `count_outages` it always does. To wait for room in a limit of ours is no failure, and never costs one."""
    if isinstance(error, rm.errors.Limited) and (
        error.reason not in OF_THE_SERVICE or not entities.settings.count_outages
    ):
        raise error
    spend = entities.settings.count_outages
    if isinstance(error, rm.errors.ProviderDown) and not spend:
        spend = not await entities.in_outage()
    return rm.RetryLater(None if spend else error.retry_after, error.code, str(error), count_attempt=spend)
