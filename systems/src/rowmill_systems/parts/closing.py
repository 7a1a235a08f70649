"""Close at the end of an `async with` block."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class AsyncCloseable(ABC):
    """Something with `close`, for `async with`."""

    @abstractmethod
    async def close(self) -> None:
        """Release what is held. Idempotent."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
