"""A service that is asked over HTTP, as sources see it."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol


class Service(Protocol):
    """One host, by the name that its limit has. What it answered before is not asked again."""

    name: str

    async def get(
        self, path: str, parameters: Mapping[str, str], *, nothing: Callable[[Any], bool] = lambda answer: False
    ) -> Any:
        """The JSON that it answers. `nothing` tells an answer that says "no match", which is kept for a shorter time.

        Raises RateLimited, ProviderDown, ProviderRefused and Limited if it could not be asked; PermanentError with the
        code `rejected` if it does not take this question. None of these is kept.
        """

    async def post(
        self, path: str, form: Mapping[str, str], *, nothing: Callable[[Any], bool] = lambda answer: False
    ) -> Any:
        """The same, for questions that are sent as a form."""
