"""Transactions elsewhere that prevent cleanup, while rows keep arriving."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import MappingProxyType

import psycopg

from faults.fleet import Fleet
from faults.history import History
from faults.scenario import Finding, Scenario, Site
from faults.scenarios.server import asking, until
from tests.support.postgres import TemporaryPostgres

FEEDBACK = {
    "hot_standby_feedback": "on",
    "wal_receiver_status_interval": "1",
    "primary_slot_name": "standby",
    "max_standby_streaming_delay": "-1",  # what was cleaned away before it told us would end its query
}


JUDGED = 60.0
"""Seconds of a run from which the rate is judged. A fifth of a shorter run says little."""


class Pinned(Scenario):
    """An open transaction, a prepared transaction that nobody finishes, a replication slot that nobody reads, and a
    query on a standby with feedback to the primary."""

    name = "horizon pinned"
    stores = ("postgresql",)
    rate = 1000.0
    groups = 1000
    settings = MappingProxyType({"max_prepared_transactions": "2", "wal_level": "logical"})
    needed = ("pins",)
    goal = 0.9

    def inject(self, fleet: Fleet, site: Site) -> None:
        for _ in self.ticks(0.5, seconds=self.seconds / 5):  # they come up to their speed
            fleet.look()
        began = time.time()
        for _ in self.ticks(0.5, seconds=self.seconds / 5):
            fleet.look()
        self.before = began, time.time()
        with pins(site) as self.dose["pins"]:
            for _ in self.ticks(0.5):
                fleet.look()
            self.last = time.time() - self.seconds / 5, time.time()

    def measure(self, history: History, finding: Finding) -> None:
        share = round(history.rate(*self.last) / history.rate(*self.before), 2)
        finding.measured["of the rate before, at the end"] = share
        if self.seconds >= JUDGED and share < self.goal:
            finding.short_of.append(f"{share} of the rate before the pins; wanted: {self.goal}")


@contextmanager
def pins(site: Site) -> Iterator[int]:
    assert site.server is not None
    with asking(site) as admin:
        # First: to make one waits for every transaction that is open.
        admin.execute("SELECT pg_create_logical_replication_slot('lab', 'pgoutput')")
        admin.execute("SELECT pg_create_physical_replication_slot('standby')")
        with (
            TemporaryPostgres({**site.server.settings, **FEEDBACK}, standby_of=site.url) as standby,
            psycopg.connect(site.url, application_name="lab") as here,
            psycopg.connect(standby.url, application_name="lab") as there,
        ):
            for holder in (here, there):
                holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                holder.execute("SELECT count(*) FROM pg_class")
            here.execute("SELECT txid_current()")
            with psycopg.connect(site.url, application_name="lab", autocommit=True) as other:
                for statement in ("BEGIN", "SELECT txid_current()", "PREPARE TRANSACTION 'lab'"):
                    other.execute(statement)
            pinned = "SELECT xmin FROM pg_replication_slots WHERE slot_name = 'standby' AND xmin IS NOT NULL"
            until(lambda: admin.execute(pinned).fetchall(), "a standby that tells of its query")
            yield 4
        admin.execute("SELECT pg_drop_replication_slot('lab')")
        admin.execute("ROLLBACK PREPARED 'lab'")
