"""A service that is asked over HTTP, as sources see it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol


def never(answer: Any) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class BatchQuery:
    """Questions of one kind, of which the service takes several in one call."""

    name: str
    """Another one, as soon as what is kept of an answer is another thing: answers are found again by it."""
    method: Literal["GET", "POST"]
    path: str
    join: Callable[[Sequence[str]], Mapping[str, str]]
    """The parameters of one call for these items. In the order given, without repetitions."""
    split: Callable[[Any, Sequence[str]], Mapping[str, Any]]
    """What the answer says of each item. One that it does not mention was not answered, and is asked for again."""
    nothing: Callable[[Any], bool] = never
    most: int = 50
    """Items in one call."""


class ServiceClient(Protocol):
    """One host, by the name that its limit has. What it answered before is not asked again."""

    name: str

    async def get(self, path: str, parameters: Mapping[str, str], *, nothing: Callable[[Any], bool] = never) -> Any:
        """The JSON that it answers. `nothing` tells an answer that says "no match", which is kept for a shorter time.

        Raises RateLimited, ProviderDown, ProviderRefused and Limited if it could not be asked; PermanentError with the
        code `rejected` if it does not take this question. None of these is kept.
        """

    async def post(self, path: str, form: Mapping[str, str], *, nothing: Callable[[Any], bool] = never) -> Any:
        """The same, for questions that are sent as a form."""

    async def each(self, batch: BatchQuery, items: Sequence[str]) -> Mapping[str, Any]:
        """What it answers to each of these, asked together with those that others ask at the same moment. Raises as
        `get` does."""
