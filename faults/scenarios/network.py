"""A network between the fleet and its server that cuts, drops and delays."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from faults.fleet import Fleet
from faults.history import History
from faults.ledger import What
from faults.scenario import Scenario, Site
from faults.wire import Wire
from faults.world import LEASE
from tests.support.proxy import Way


class Network(Scenario):
    stores = ("postgresql",)
    wire: Wire

    @contextmanager
    def around(self, site: Site) -> Iterator[None]:
        with Wire(site.url) as self.wire:
            yield
            self.wire.heal()

    def database(self, site: Site) -> str:
        return self.wire.url


class Cuts(Network):
    """Cuts every connection, again and again."""

    name = "connections cut"
    needed = ("connections",)

    def inject(self, fleet: Fleet, site: Site) -> None:
        for _ in self.ticks(0.8):
            self.dose["connections"] += self.wire.cut()
            fleet.look()


class LostAnswers(Network):
    """Drops the server's replies, then cuts the connections. The worker can't know whether a claim or settle was
    committed."""

    name = "answers lost after the commit"
    needed = ("answers", "claims among them")

    def inject(self, fleet: Fleet, site: Site) -> None:
        for _ in self.ticks(0.6):
            before = self.wire.proxy.swallowed
            self.wire.proxy.muted.add(Way.ANSWERS)
            time.sleep(fleet.chance.uniform(0.02, 0.15))
            self.wire.heal()
            self.dose["answers"] += self.wire.proxy.swallowed - before
            fleet.look()

    def count(self, history: History) -> None:
        unanswered = {entry.token for entry in history.entries if entry.what is What.UNANSWERED}
        self.dose["claims among them"] = len(unanswered)


class Silence(Network):
    """Drops everything in one direction or both for longer than a lease, while every connection looks alive."""

    name = "network silent past the lease"
    needed = ("silences", "pieces swallowed")

    def inject(self, fleet: Fleet, site: Site) -> None:
        ways = ({Way.ANSWERS}, {Way.REQUESTS}, {Way.ANSWERS, Way.REQUESTS})
        for _ in self.ticks(1.5):
            self.wire.proxy.muted |= ways[self.dose["silences"] % 3]
            time.sleep(LEASE * 1.5)
            self.wire.heal()
            self.dose["silences"] += 1
            fleet.look()
        self.dose["pieces swallowed"] = self.wire.proxy.swallowed


class Slow(Network):
    """Delays everything by half a second, then limits the bandwidth."""

    name = "network slow"
    needed = ("pieces delayed",)

    def inject(self, fleet: Fleet, site: Site) -> None:
        for passed in self.ticks(0.5):
            late = passed < self.seconds / 2
            self.wire.proxy.delay, self.wire.proxy.rate = (0.5, None) if late else (0.0, 100_000.0)
            fleet.look()
        self.wire.heal()
        self.dose["pieces delayed"] = self.wire.proxy.delayed
