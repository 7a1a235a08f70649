"""Finds the bad item of a batch: a batch that fails is tried again in halves."""

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class Halving(Generic[T]):
    """Batches to try, beginning with all items. The caller asks for the halves of a batch that failed.

    halving = Halving(keys)
    for batch in halving:
        try:
            await write(batch)
        except Refused:
            if not halving.split(batch):
                refused.append(batch[0])
    """

    def __init__(self, items: Sequence[T]) -> None:
        self._batches = [items] if items else []

    def __iter__(self) -> Iterator[Sequence[T]]:
        while self._batches:
            yield self._batches.pop()

    def split(self, batch: Sequence[T]) -> bool:
        """Try the halves of this batch next. Return False if it is a single item, which has no halves."""
        middle = len(batch) // 2
        if middle:
            self._batches += [batch[middle:], batch[:middle]]
        return middle > 0

    def retry(self, batch: Sequence[T]) -> None:
        """Try this batch next, once more."""
        self._batches.append(batch)
