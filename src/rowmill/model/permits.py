"""The port between a worker and limits: a row may need a permit before it runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rowmill.model.lease import Lease

HORIZON = 0.1
"""Seconds for which a row without a permit may stay in the process, to ask again."""


@dataclass(slots=True)
class NotPermitted:
    """A row that got no permit."""

    lease: Lease[Any]
    wait: float
    """Seconds until the row may ask again."""
    code: str
    message: str
    stays: bool = False
    """Whether the row asks again so soon that it is not given back to its table."""
    raised: Exception | None = None
    """What a key or cost function of the limit raised."""


@dataclass(slots=True)
class GateClosed:
    """No row would get a permit for a while, so none is claimed."""

    seconds: float
    passing: bool
    """Whether the gate opens soon by itself. Otherwise `drain` does not wait for it."""


class PermitGate(Protocol):
    """Grants permits to the rows of one stage, in one process."""

    revoked: Callable[[], None]
    """Called when permits are no longer valid."""

    @property
    def ahead(self) -> float:
        """The most seconds between getting a permit and running the row; 0 if a row needs its permit when it starts."""

    @property
    def most(self) -> int | None:
        """The largest number of rows that may get a permit soon, as far as is known; None if there is no such
        number."""

    @property
    def shared(self) -> Sequence[str]:
        """The names of the limits that all rows share. While one of them has no room, no row is claimed."""

    def closed_reason(self) -> GateClosed | None:
        """Return why no row would get a permit now; None if some may."""

    async def admit(self, leases: Sequence[Lease[Any]]) -> tuple[list[NotPermitted], float]:
        """Get permits for rows. Return the rows that got none, and until when the permits of the others are valid."""

    def ready(self, lease: Lease[Any]) -> bool:
        """Return whether a row has a valid permit. An expired permit is given back."""

    def fresh_until(self, lease: Lease[Any]) -> float:
        """Return until when a row's permit is valid, on the system's monotonic clock; 0 if it has none."""

    def finish(self, lease: Lease[Any], raised: BaseException | None) -> None:
        """Note that a row ran, and what its handler raised."""

    def forgo(self, lease: Lease[Any]) -> None:
        """Give back the permit of a row that does not run."""
