"""A scenario: a fleet on a fresh database, a fault, and the verdict."""

import asyncio
import shutil
import tempfile
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import sqlalchemy as sa

from faults.case import Violation
from faults.checker import check
from faults.collect import collect
from faults.feeder import engine_of, insert_backlog
from faults.fleet import Fleet, FleetBroke
from faults.history import History
from faults.ledger import Ledger, What
from faults.small_disk import CannotMount
from faults.world import GROUPS, World, create_witness, world
from rowmill.model.lifecycle import UNFINISHED
from tests.support.postgres import TemporaryPostgres

BOUND = 60.0
"""Seconds after the last fault within which everything must be final."""


SERVER = {"fsync": "on", "track_commit_timestamp": "on"}


@dataclass
class Site:
    """The place of a scenario: folder, database, server."""

    url: str
    folder: Path
    server: TemporaryPostgres | None = None

    @property
    def world(self) -> World:
        return world(self.url)


@dataclass
class Finding:
    """The result of a run: what was done, and what was observed."""

    scenario: str
    store: str
    seed: int
    dose: dict[str, int]
    rows: int = 0
    stale_refused: int = 0
    seconds: float = 0.0
    measured: dict[str, float] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)
    not_run: str = ""
    """Why it could not run here."""
    broke: str = ""
    """The error of a process that ended by itself."""
    without_dose: list[str] = field(default_factory=list)
    """Faults that should have happened at least once and did not: such a run proves nothing."""
    short_of: list[str] = field(default_factory=list)
    """Performance goals that were missed."""

    @property
    def wrong(self) -> list[str]:
        """What is wrong with the run besides violated rules."""
        unharmed = [f"did no harm: {name} is zero" for name in self.without_dose]
        return [
            *unharmed,
            *(f"short of its goal: {goal}" for goal in self.short_of),
            *([self.broke] if self.broke else []),
        ]

    @property
    def lost(self) -> int:
        return len({found.place for found in self.violations if found.rule == 1})

    @property
    def applied_twice(self) -> int:
        return len({found.place for found in self.violations if found.rule == 2})

    @property
    def passed(self) -> bool:
        return not (self.violations or self.without_dose or self.short_of or self.not_run or self.broke)


class Scenario(ABC):
    """A fault. `inject` is called with a running fleet, and returns when its time is over."""

    name: str
    stores: tuple[str, ...] = ("postgresql", "sqlite")
    workers = 3
    rate = 400.0
    groups = GROUPS
    """Number of aggregates over which events are spread."""
    backlog = 0
    """Number of lots and of papers that exist before the fleet starts."""
    settings: Mapping[str, str] = MappingProxyType({})
    """Settings of the PostgreSQL server that it starts."""
    needed: tuple[str, ...] = ()
    """Faults that must happen at least once."""
    guards: tuple[str, ...] = ("settle", "release", "renew", "rescue", "due", "chance")
    """Guards of the engine without which a rule is broken."""

    def __init__(self, seed: int, seconds: float) -> None:
        self.seed, self.seconds = seed, seconds
        self.dose: Counter[str] = Counter()
        self.forgotten: list[tuple[float, float]] = []
        """Times from which the server itself lost confirmed commits."""

    @abstractmethod
    def inject(self, fleet: Fleet, site: Site) -> None: ...

    def database(self, site: Site) -> str:
        """Return the URL that the fleet uses."""
        return site.url

    @contextmanager
    def ground(self) -> Iterator[Path | None]:
        """Return the folder of the database; None for any."""
        yield None

    @contextmanager
    def around(self, site: Site) -> Iterator[None]:
        """Set up what must exist for the whole run, such as a proxy."""
        yield

    def environment(self, worker: int) -> Mapping[str, str]:
        """Return the environment of the nth worker."""
        return {}

    def while_finishing(self, fleet: Fleet) -> None:
        """Called repeatedly while the remaining rows are finished."""
        fleet.look()

    def ticks(
        self, every: float, harmed: Callable[[], bool] = lambda: True, *, seconds: float | None = None
    ) -> Iterator[float]:
        """Yield the seconds that have passed at this interval, until the time is over; longer, until the fault has
        happened."""
        began, time_is_over = time.monotonic(), self.seconds if seconds is None else seconds
        while (passed := time.monotonic() - began) < time_is_over or (passed < time_is_over * 5 and not harmed()):
            yield passed
            time.sleep(every)

    def run(self, store: str) -> Finding:
        began = time.monotonic()
        try:
            history = self._played(store)
        except CannotMount as error:
            return Finding(self.name, store, self.seed, {}, not_run=str(error))
        except FleetBroke as error:
            return Finding(self.name, store, self.seed, dict(self.dose), broke=str(error))
        return self.judged(store, history, time.monotonic() - began)

    def _played(self, store: str) -> History:
        with self.ground() as ground, place(store, self.settings, ground) as site, self.around(site):
            asyncio.run(prepare(site, self.backlog))
            with Fleet(
                self.database(site), site.folder, self.seed, self.workers, self.rate, self.backlog + 1, self.groups,
                self.environment,
            ) as fleet:  # fmt: skip
                fleet.wait_until_up(lambda: self.while_finishing(fleet))
                self.inject(fleet, site)
                fleet.stop_feeding()
                asyncio.run(wait_until_final(site.world, lambda: self.while_finishing(fleet)))
                fleet.stop()
            return asyncio.run(collect(site.world, site.folder, forgotten=self.forgotten))

    def count(self, history: History) -> None:
        """Count faults that only the history shows."""
        return

    def measure(self, history: History, finding: Finding) -> None:
        """Record measurements, and the goals that they miss."""
        return

    def judged(self, store: str, history: History, seconds: float) -> Finding:
        self.count(history)
        refused = sum(entry.what is What.REFUSED for entry in history.entries)
        finding = Finding(self.name, store, self.seed, dict(self.dose), len(history.rows), refused, round(seconds, 1))
        finding.violations = check(history)
        self.measure(history, finding)
        doses = self.dose | Counter(stale_refused=refused, rows=len(history.rows))
        finding.without_dose = [name for name in ("rows", *self.needed) if not doses[name]]
        return finding


@contextmanager
def place(store: str, settings: Mapping[str, str], ground: Path | None = None) -> Iterator[Site]:
    folder = Path(tempfile.mkdtemp(prefix="rowmill-faults-"))
    try:
        if store == "sqlite":
            yield Site(f"sqlite:///{ground or folder}/faults.db", folder)
        else:
            with TemporaryPostgres({**SERVER, **settings}, root=ground) as server:
                yield Site(server.url, folder, server)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def prepare(site: Site, backlog: int = 0) -> None:
    made = site.world
    async with made.mill.opened():
        await made.mill.migrate(tables=True)
        await made.mill.run(create_witness)
        if backlog:
            insert_backlog(engine_of(site.url), Ledger(site.folder / "backlog.ledger"), backlog)


async def wait_until_final(made: World, while_finishing: Callable[[], None]) -> None:
    """Wait until everything is final, or the bound is over. The checker reports what is not."""
    deadline = time.monotonic() + BOUND

    def open_rows(connection: sa.Connection) -> int:
        found = 0
        for queue in made.queues:
            words = [str(word) for word in queue.vocabulary.all_of(UNFINISHED)]
            found += (
                connection.scalar(
                    sa.select(sa.func.count()).select_from(queue.table).where(queue.table.c.state.in_(words))
                )
                or 0
            )
        return found

    async with made.mill.opened():
        while time.monotonic() < deadline:
            if not await made.mill.run(open_rows, write=False):
                return
            while_finishing()
            await asyncio.sleep(0.1)
