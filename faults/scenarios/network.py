"""A network between the fleet and its server that cuts, swallows and slows."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from faults.fleet import Fleet
from faults.scenario import Scenario, Site
from faults.wire import Way, Wire
from faults.world import LEASE


class Network(Scenario):
    stores = ("postgresql",)
    wire: Wire

    @contextmanager
    def around(self, site: Site) -> Iterator[None]:
        url = sa.make_url(site.url)
        with Wire(url.host or "127.0.0.1", url.port or 5432) as self.wire:
            yield
            self.wire.heal()

    def database(self, site: Site) -> str:
        return sa.make_url(site.url).set(port=self.wire.port).render_as_string(hide_password=False)


class Cuts(Network):
    """Every connection is cut, again and again."""

    name = "connections cut"
    needed = ("connections",)

    def torment(self, fleet: Fleet, site: Site) -> None:
        for _ in self.ticks(0.8):
            self.dose["connections"] += self.wire.cut()
            fleet.look()


class LostAnswers(Network):
    """The server carries out what it is asked, and nobody hears of it: its answers are swallowed, then the connections
    cut. Whether a claim or a settle was committed, the worker can't know."""

    name = "answers lost after the commit"
    needed = ("answers",)

    def torment(self, fleet: Fleet, site: Site) -> None:
        for _ in self.ticks(0.6):
            before = self.wire.swallowed
            self.wire.muted.add(Way.ANSWERS)
            time.sleep(fleet.chance.uniform(0.02, 0.15))
            self.wire.heal()
            self.dose["answers"] += self.wire.swallowed - before
            fleet.look()


class Silence(Network):
    """Nothing gets through on one way or on both, for longer than a lease, and every connection looks alive."""

    name = "network silent past the lease"
    needed = ("silences",)

    def torment(self, fleet: Fleet, site: Site) -> None:
        ways = ({Way.ANSWERS}, {Way.REQUESTS}, {Way.ANSWERS, Way.REQUESTS})
        for _ in self.ticks(1.5):
            self.wire.muted |= ways[self.dose["silences"] % 3]
            time.sleep(LEASE * 1.5)
            self.wire.heal()
            self.dose["silences"] += 1
            fleet.look()


class Slow(Network):
    """Everything is half a second late, then comes at a trickle."""

    name = "network slow"
    needed = ("pieces delayed",)

    def torment(self, fleet: Fleet, site: Site) -> None:
        for passed in self.ticks(0.5):
            late = passed < self.seconds / 2
            self.wire.delay, self.wire.rate = (0.5, None) if late else (0.0, 100_000.0)
            fleet.look()
        self.wire.heal()
        self.dose["pieces delayed"] = self.wire.delayed
