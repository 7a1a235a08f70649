"""Groups verdicts of one shape, which one statement can write."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rowmill.model.judge import Verdict
from rowmill.model.lifecycle import Move
from rowmill.model.queue import QueueSpec
from rowmill.model.states import Step


@dataclass(slots=True)
class SettleBatch:
    """Verdicts of one queue, stage, move and set of result columns. The number names it in its receipt."""

    number: int
    queue: QueueSpec[Any]
    step: Step
    move: Move
    columns: tuple[str, ...]
    verdicts: list[Verdict]

    @property
    def seconds(self) -> float:
        return sum([verdict.ran for verdict in self.verdicts])

    def part(self, number: int, verdicts: list[Verdict]) -> "SettleBatch":
        """Return a batch of the same shape with these verdicts."""
        return SettleBatch(number, self.queue, self.step, self.move, self.columns, verdicts)


def settle_batches(verdicts: Sequence[Verdict], number: Callable[[], int]) -> list[SettleBatch]:
    """Group verdicts by shape. `number` gives each batch its number."""
    groups: dict[tuple[Any, ...], list[Verdict]] = {}
    last: Any = (None, None, None)
    group: list[Verdict] = []
    for verdict in verdicts:
        lease, move, values = verdict.lease, verdict.move, verdict.values
        if values or (lease.queue, lease.step, move) != last:  # mostly one is like the one before
            shape = (lease.queue.name, lease.step.name, move.name, tuple(values))
            group = groups.setdefault(shape, [])
            last = None if values else (lease.queue, lease.step, move)
        group.append(verdict)
    found = []
    for (_, _, _, columns), group in groups.items():
        first = group[0]
        found.append(SettleBatch(number(), first.lease.queue, first.lease.step, first.move, columns, group))
    return found
