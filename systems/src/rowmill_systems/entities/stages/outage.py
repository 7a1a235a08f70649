"""Put an entity back whose service can't be asked, and decide whether that costs an attempt."""

from typing import TYPE_CHECKING

import rowmill as rm

if TYPE_CHECKING:
    from rowmill_systems.entities.entities import Entities

CANT_BE_ASKED = (rm.RateLimited, rm.errors.ProviderRefused, rm.errors.ProviderDown, rm.errors.Limited)
"""Errors that were reported to the limit of the service where they happened.

If a handler raised them, they would be reported to its own limits too, which are about entities of one name.
"""
OF_THE_SERVICE = ("off", "parked", "open")
"""Reasons of a limit that are about the service. The others mean that we have no room."""


async def put_back(
    entities: "Entities", error: rm.RateLimited | rm.errors.ProviderRefused | rm.errors.ProviderDown | rm.errors.Limited
) -> rm.RetryLater:
    """Return when to retry.

    A failure of the service costs an attempt, unless the fleet knows that it is down or was asked to wait; with
    `count_outages` it always does. Waiting for room in a limit of ours never costs one.
    """
    if isinstance(error, rm.errors.Limited) and (
        error.reason not in OF_THE_SERVICE or not entities.settings.count_outages
    ):
        raise error
    spend = entities.settings.count_outages
    if isinstance(error, rm.errors.ProviderDown) and not spend:
        spend = not await entities.in_outage()
    return rm.RetryLater(None if spend else error.retry_after, error.code, str(error), count_attempt=spend)
