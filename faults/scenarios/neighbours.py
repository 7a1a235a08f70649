"""Other users of the same database: they lock rows, block everything, or make writes slow.

No worker dies here. So no lease may be rescued, and no result refused: it would belong to a live worker.
"""

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.engine import make_url

from faults.fleet import Fleet
from faults.history import History
from faults.scenario import Finding, Scenario, Site
from faults.scenarios.server import asking
from faults.world import LEASE, Lot


class Neighbours(Scenario):
    def measure(self, history: History, finding: Finding) -> None:
        finding.measured["results of living workers refused"] = finding.stale_refused
        if finding.stale_refused:
            finding.short_of.append("no result of a living worker is refused")


class LockedRows(Neighbours):
    """Another session locks a few running rows for longer than their leases, all the time."""

    name = "rows locked by others"
    stores = ("postgresql",)
    needed = ("rows locked past their leases",)
    taken = (
        "SELECT id FROM faults_item WHERE state = 'running' ORDER BY random() LIMIT 3 FOR UPDATE SKIP LOCKED",
        "SELECT id FROM faults_lot WHERE state = 'running' ORDER BY random() LIMIT 3 FOR UPDATE SKIP LOCKED",
    )

    def inject(self, fleet: Fleet, site: Site) -> None:
        with asking(site) as connection:
            for _ in self.ticks(0.05):
                with connection.transaction():
                    locked = sum(len(connection.execute(statement).fetchall()) for statement in self.taken)
                    if locked:
                        time.sleep(LEASE * 1.5)
                        self.dose["rows locked past their leases"] += locked
                fleet.look()


class Stalls(Neighbours):
    """Nobody can write for longer than a lease, again and again: another writer holds the SQLite file or the tables."""

    name = "database held by others"
    needed = ("stalls",)

    def inject(self, fleet: Fleet, site: Site) -> None:
        for _ in self.ticks(LEASE):
            with everything_held(site):
                time.sleep(LEASE * 1.5)
            self.dose["stalls"] += 1
            fleet.look()


@contextmanager
def everything_held(site: Site) -> Iterator[None]:
    if site.server is not None:
        with asking(site) as connection, connection.transaction():
            connection.execute("LOCK TABLE faults_item, faults_lot, faults_paper, faults_event")
            yield
        return
    foreign = sqlite3.connect(str(make_url(site.url).database), isolation_level=None, timeout=30.0)
    try:
        foreign.execute("BEGIN IMMEDIATE")
        yield
        foreign.execute("ROLLBACK")
    finally:
        foreign.close()


SLOW = """
CREATE FUNCTION faults_slow() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN IF NEW.state = 'done' THEN PERFORM pg_sleep(0.03); END IF; RETURN NEW; END $$
"""


class SlowSettles(Neighbours):
    """A trigger makes each finished row slow, and the server cancels long statements."""

    name = "slow settles cut off"
    stores = ("postgresql",)
    needed = ("statements cut off",)
    rate = 100.0
    backlog = 400

    @contextmanager
    def around(self, site: Site) -> Iterator[None]:
        self._set_timeout(site, "= '500ms'")
        yield

    def inject(self, fleet: Fleet, site: Site) -> None:
        table = Lot.__tablename__
        with asking(site) as connection:
            connection.execute("SET statement_timeout = 0")
            connection.execute(SLOW)
            connection.execute(
                f"CREATE TRIGGER faults_slow BEFORE UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION faults_slow()"
            )
            for _ in self.ticks(0.2, lambda: bool(self.dose["statements cut off"])):
                reports = connection.execute("SELECT settle_lag FROM rowmill.worker WHERE settle_lag IS NOT NULL")
                lags = [json.loads(str(text)).get(table, {}) for (text,) in reports]
                cut = sum(int(lag.get("cancelled", 0)) for lag in lags)
                self.dose["statements cut off"] = max(self.dose["statements cut off"], cut)
                fleet.look()
        self._set_timeout(site, "TO DEFAULT")

    def _set_timeout(self, site: Site, value: str) -> None:
        with asking(site) as connection:
            connection.execute(f"ALTER DATABASE {make_url(site.url).database} SET statement_timeout {value}")
