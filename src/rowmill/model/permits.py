"""What may stand before a handler: a row needs a permit before it runs. The worker knows only this of limits."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rowmill.model.lease import Lease

HORIZON = 0.1
"""Seconds for which a row without a permit may stay here, to ask again."""


@dataclass(slots=True)
class NotPermitted:
    """A row that has no permit now."""

    lease: Lease[Any]
    wait: float
    """Seconds until it may ask again."""
    code: str
    message: str
    stays: bool = False
    """It asks again so soon that it need not go back to its table."""
    raised: Exception | None = None
    """Code of the user's that had a say in it failed, as a handler may."""


@dataclass(slots=True)
class GateClosed:
    """No row at all would get a permit for a while, so none is claimed."""

    seconds: float
    passing: bool
    """It is only slow. Otherwise whoever waits for the queue to be empty need not wait for this."""


class PermitGate(Protocol):
    """Leave for rows of one stage. For one process."""

    revoked: Callable[[], None]
    """Called when permits are no longer valid."""

    @property
    def ahead(self) -> float:
        """Seconds before a row runs in which its permit may be had; 0: only for rows that start at once."""

    @property
    def most(self) -> int | None:
        """The most rows that may find a permit within the horizon, as far as is known; None: any number."""

    @property
    def shared(self) -> Sequence[str]:
        """The limits that all rows share: while one of them has no room, no row is claimed."""

    def closed_reason(self) -> GateClosed | None:
        """Is it?"""

    async def admit(self, leases: Sequence[Lease[Any]]) -> tuple[list[NotPermitted], float]:
        """Get permits for rows; returns those that have none, and until when the permits of all others are valid."""

    def ready(self, lease: Lease[Any]) -> bool:
        """Has it a valid permit? One that is not valid is given back."""

    def fresh_until(self, lease: Lease[Any]) -> float:
        """Until when its permit is valid, on the system's monotonic clock; at once, if it has none."""

    def finish(self, lease: Lease[Any], raised: BaseException | None) -> None:
        """It ran, and this is what its handler raised."""

    def forgo(self, lease: Lease[Any]) -> None:
        """It does not run after all."""
