"""The protocol: who may do what to a row, one step at a time.

A step is what the database does at once: a claim, a settle, a renewal, a rescue. Between two steps anything may happen:
a lease runs out while its worker stands still, a worker dies, a row is committed late. `Rules` has a switch for each of
the mistakes that queues are written with.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

READY, RUNNING, DONE, DEAD = "ready", "running", "done", "dead"


@dataclass(frozen=True, slots=True)
class Rules:
    """The protocol as it is, or with one mistake."""

    fence_settle: bool = True
    """A settle checks that the row still has its token."""
    fence_renew: bool = True
    fence_release: bool = True
    rescue_looks_again: bool = True
    """A rescue checks, in the statement that writes, that the lease is still the expired one."""
    watermark_resets: bool = True
    """A claim that finds nothing behind its watermark starts from the beginning."""
    workers: int = 2
    rows: int = 2
    attempts: int = 2
    crashes: int = 1
    late: int = 0
    """Number of rows that are committed late, in any order."""


@dataclass(frozen=True, slots=True)
class Row:
    state: str = READY
    committed: bool = True
    token: int = 0
    live: bool = False
    """Whether the lease has not expired."""
    attempts: int = 0
    results: int = 0
    """How often a result was written. A duplicate shows."""


@dataclass(frozen=True, slots=True)
class Worker:
    row: int | None = None
    token: int = 0
    mark: int = -1
    """The position of the last row that it claimed."""


@dataclass(frozen=True, slots=True)
class World:
    rows: tuple[Row, ...]
    workers: tuple[Worker, ...]
    seen: tuple[int, int] | None = None
    """(row, token) that the rescuer saw with an expired lease."""
    next_token: int = 1
    crashes: int = 0
    broken: str = ""
    """A violation that a step caused."""


Step = tuple[str, World]


def beginning(rules: Rules) -> World:
    rows = tuple(Row(committed=place >= rules.late) for place in range(rules.rows))
    return World(rows, (Worker(),) * rules.workers, crashes=rules.crashes)


def steps(world: World, rules: Rules) -> Iterator[Step]:
    """Yield every possible next step."""
    for who, worker in enumerate(world.workers):
        if worker.row is None:
            yield from _claim(world, rules, who)
        else:
            yield f"worker {who} settles row {worker.row}", _settle(world, rules, who)
            yield f"worker {who} gives row {worker.row} back", _release(world, rules, who)
            yield from _renew(world, rules, who)
            if world.crashes:
                gone = replace(world, workers=_put(world.workers, who, Worker()), crashes=world.crashes - 1)
                yield f"worker {who} dies with row {worker.row}", gone
    for place, row in enumerate(world.rows):
        if not row.committed:
            yield f"row {place} is committed", _row(world, place, replace(row, committed=True))
        if row.state == RUNNING and row.live:
            yield f"the lease of row {place} runs out", _row(world, place, replace(row, live=False))
        if row.state == RUNNING and not row.live and world.seen is None:
            yield f"the rescuer sees row {place}", replace(world, seen=(place, row.token))
    if world.seen is not None:
        yield f"the rescuer takes row {world.seen[0]} back", _rescue(world, rules)


def _claim(world: World, rules: Rules, who: int) -> Iterator[Step]:
    worker = world.workers[who]
    ready = [place for place, row in enumerate(world.rows) if row.committed and row.state == READY]
    found = [place for place in ready if place > worker.mark]
    if not found and rules.watermark_resets:
        found = ready
    if found:
        place = found[0]
        row = world.rows[place]
        token = world.next_token
        taken = replace(row, state=RUNNING, token=token, live=True, attempts=row.attempts + 1)
        world = replace(_row(world, place, taken), next_token=token + 1)
        holds = Worker(place, token, place)
        yield f"worker {who} claims row {place} under {token}", replace(world, workers=_put(world.workers, who, holds))


def _settle(world: World, rules: Rules, who: int) -> World:
    world, place, row, worker = _lay_down(world, who)
    if not _holds(row, worker):
        if rules.fence_settle:
            return world
        world = replace(world, broken=f"a settlement of lease {worker.token} was accepted on lease {row.token}")
    return _row(world, place, replace(row, state=DONE, token=0, live=False, results=row.results + 1))


def _release(world: World, rules: Rules, who: int) -> World:
    world, place, row, worker = _lay_down(world, who)
    if not _holds(row, worker):
        if rules.fence_release:
            return world
        world = replace(world, broken=f"lease {worker.token} gave back the row of lease {row.token}")
    return _row(world, place, replace(row, state=READY, token=0, live=False, attempts=max(row.attempts - 1, 0)))


def _holds(row: Row, worker: Worker) -> bool:
    return row.state == RUNNING and row.token == worker.token


def _lay_down(world: World, who: int) -> tuple[World, int, Row, Worker]:
    """Remove a row, and what the worker knew about it, from the worker's hands."""
    worker = world.workers[who]
    assert worker.row is not None
    free = replace(world, workers=_put(world.workers, who, Worker(mark=worker.mark)))
    return free, worker.row, world.rows[worker.row], worker


def _renew(world: World, rules: Rules, who: int) -> Iterator[Step]:
    worker = world.workers[who]
    assert worker.row is not None
    row = world.rows[worker.row]
    holds = _holds(row, worker)
    if holds and not row.live:
        yield f"worker {who} renews row {worker.row}", _row(world, worker.row, replace(row, live=True))
    elif not holds and rules.fence_renew:
        yield f"worker {who} hears that row {worker.row} is lost", _lay_down(world, who)[0]
    elif not holds and row.state == RUNNING:
        wrong = replace(world, broken=f"lease {worker.token} renewed the row of lease {row.token}")
        yield f"worker {who} renews row {worker.row}", _row(wrong, worker.row, replace(row, live=True))


def _rescue(world: World, rules: Rules) -> World:
    assert world.seen is not None
    place, token = world.seen
    row = world.rows[place]
    world = replace(world, seen=None)
    run_out = row.state == RUNNING and not row.live
    if not run_out and rules.rescue_looks_again:
        return world
    if not run_out:
        world = replace(
            world, broken=f"row {place} was taken from lease {row.token}, which had not run out, for {token}"
        )
    state = DEAD if row.attempts >= rules.attempts else READY
    return _row(world, place, replace(row, state=state, token=0, live=False))


def _row(world: World, place: int, row: Row) -> World:
    return replace(world, rows=(*world.rows[:place], row, *world.rows[place + 1 :]))


def _put(workers: tuple[Worker, ...], who: int, worker: Worker) -> tuple[Worker, ...]:
    return (*workers[:who], worker, *workers[who + 1 :])
