"""A server that is lost: its standby takes over, with all confirmed commits, or without the last ones."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from faults.fleet import Fleet
from faults.history import History
from faults.ledger import What
from faults.scenario import Site
from faults.scenarios.network import Network
from faults.scenarios.server import asking, until
from faults.wire import Wire
from tests.support.postgres import TemporaryPostgres
from tests.support.proxy import Way

CALM = 1.5
"""Seconds between two failovers."""
LAG = 0.3
"""Seconds that a standby, and a process with its ledger, may lag behind."""


class Promotion(Network):
    """Stops the primary immediately and promotes its synchronous standby: no confirmed commit is lost. Then the new
    primary gets a standby, and is lost in turn."""

    name = "synchronous standby promoted"
    needed: tuple[str, ...] = ("promotions",)
    synchronous = True

    def inject(self, fleet: Fleet, site: Site) -> None:
        for _ in self.ticks(0.2):
            assert site.server is not None
            with Wire(site.url) as following:
                standby = TemporaryPostgres(site.server.settings, standby_of=following.url).start()
                self.servers.append(standby)
                self.follow(site)
                time.sleep(CALM)
                self.before_the_end(fleet, following)
                site.server.down()
            site.server, site.url = standby, standby.url
            with asking(site) as connection:
                connection.execute("SELECT pg_promote()")
                connection.execute("ALTER SYSTEM RESET synchronous_standby_names")
                connection.execute("SELECT pg_reload_conf()")
            self.wire.redirect(standby.url)
            self.took_over()
            self.dose["promotions"] += 1
            fleet.look()

    def follow(self, site: Site) -> None:
        """Wait until the standby receives what the primary writes, and, if it is synchronous, until no commit goes
        without it."""
        wanted = "sync" if self.synchronous else "async"
        with asking(site) as connection:
            if self.synchronous:
                connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
                connection.execute("SELECT pg_reload_conf()")
            streaming = "SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'"
            until(lambda: set(connection.execute(streaming)) == {(wanted,)}, "a standby that follows")

    def before_the_end(self, fleet: Fleet, following: Wire) -> None:
        pass

    def took_over(self) -> None:
        pass

    @contextmanager
    def around(self, site: Site) -> Iterator[None]:
        self.servers: list[TemporaryPostgres] = []
        try:
            with super().around(site):
                yield
        finally:
            for server in self.servers:
                server.stop()


class LatePromotion(Promotion):
    """The same with a standby that lags behind by a second. Claims and results are lost that their workers know of, and
    the new primary has never heard of the newest worker."""

    name = "standby promoted that was behind"
    needed = ("promotions", "rows lost by the server", "stale_refused")
    synchronous = False

    def before_the_end(self, fleet: Fleet, following: Wire) -> None:
        self.behind = time.time() - LAG
        following.proxy.muted.add(Way.ANSWERS)
        if (victim := fleet.pick()) is not None:
            victim.kill()
            fleet.replace(victim)
        fleet.wait_until_up()

    def took_over(self) -> None:
        self.forgotten.append((self.behind, time.time() + LAG))

    def count(self, history: History) -> None:
        committed = {(entry.queue, entry.key) for entry in history.entries if entry.what is What.INSERTED}
        self.dose["rows lost by the server"] = len(committed - {row.place for row in history.rows})
