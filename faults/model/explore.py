"""Explore all reachable states, shortest path first, and check the invariants in each."""

from collections import deque
from dataclasses import dataclass

from faults.model.machine import DEAD, DONE, RUNNING, Rules, World, beginning, steps

MOST = 2_000_000
"""Number of states after which an exploration gives up."""


@dataclass(frozen=True, slots=True)
class Fault:
    what: str
    steps: tuple[str, ...]
    """The shortest path to the fault."""

    def __str__(self) -> str:
        return "\n".join([self.what, *(f"  {number}. {step}" for number, step in enumerate(self.steps, start=1))])


@dataclass(frozen=True, slots=True)
class Explored:
    states: int
    fault: Fault | None


def explore(rules: Rules, tokens: int) -> Explored:
    """Explore every interleaving with at most so many claims."""
    first = beginning(rules)
    before: dict[World, tuple[World, str] | None] = {first: None}
    waiting = deque([first])
    while waiting:
        world = waiting.popleft()
        following = [step for step in steps(world, rules) if step[1].next_token <= tokens + 1]
        spent = len(following) < sum(1 for _ in steps(world, rules))
        wrong = _wrong(world, rules, stuck=not following and not spent)
        if wrong:
            return Explored(len(before), Fault(wrong, _way(before, world)))
        for name, reached in following:
            if reached not in before:
                before[reached] = (world, name)
                waiting.append(reached)
        if len(before) > MOST:
            raise RuntimeError(f"more than {MOST:,} states: make the machine smaller")
    return Explored(len(before), None)


def _wrong(world: World, rules: Rules, *, stuck: bool) -> str:
    if world.broken:
        return world.broken
    for place, row in enumerate(world.rows):
        if row.results > 1:
            return f"row {place} has {row.results} results"
        if row.state == DONE and row.results != 1:
            return f"row {place} is done with {row.results} results"
        if row.attempts > rules.attempts + rules.crashes:
            return f"row {place} was tried {row.attempts} times"
        if row.state == RUNNING and row.live and not row.token:
            return f"row {place} is held by nobody"
    if stuck:
        open_rows = [place for place, row in enumerate(world.rows) if row.state not in (DONE, DEAD)]
        if open_rows:
            return f"nothing can happen any more, and row {open_rows[0]} is {world.rows[open_rows[0]].state}"
    return ""


def _way(before: dict[World, tuple[World, str] | None], world: World) -> tuple[str, ...]:
    names = []
    step = before[world]
    while step is not None:
        world, name = step
        names.append(name)
        step = before[world]
    return tuple(reversed(names))
