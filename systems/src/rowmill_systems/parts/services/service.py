"""What callers see of a service."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol


def never(answer: Any) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class BatchQuery:
    """A kind of question of which the service takes several in one call."""

    name: str
    """Part of the key in the cache. Change it whenever `split` returns something else."""
    method: Literal["GET", "POST"]
    path: str
    join: Callable[[Sequence[str]], Mapping[str, str]]
    """Returns the parameters of one call for these items, each of them once."""
    split: Callable[[Any, Sequence[str]], Mapping[str, Any]]
    """Returns what an answer says of each item. Items that are missing from it are asked for again."""
    nothing: Callable[[Any], bool] = never
    most: int = 50
    """Items in one call."""


class ServiceClient(Protocol):
    """One service. Its name is that of its limit. Answers are cached."""

    name: str

    async def get(self, path: str, parameters: Mapping[str, str], *, nothing: Callable[[Any], bool] = never) -> Any:
        """Return the JSON of the answer. `nothing` recognises an answer that says "no match", which is cached for a
        shorter time.

        Raises RateLimited, ProviderDown, ProviderRefused and Limited if the service could not be asked, and
        RequestRejected if it does not accept this question. Errors are not cached.
        """

    async def post(self, path: str, form: Mapping[str, str], *, nothing: Callable[[Any], bool] = never) -> Any:
        """Send a request as a form; otherwise like `get`."""

    async def each(self, batch: BatchQuery, items: Sequence[str]) -> Mapping[str, Any]:
        """Return the answer for each item.

        Items that others want at the same moment share calls. Raises as `get` does.
        """
