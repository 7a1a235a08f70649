"""Transactions elsewhere that keep anything from being cleaned away, while rows go on arriving."""

from types import MappingProxyType

import psycopg

from faults.fleet import Fleet
from faults.scenario import Scenario, Site
from faults.scenarios.server import asking


class Pinned(Scenario):
    """A transaction left open, a prepared one that nobody finishes, and a replication slot that nobody reads."""

    name = "horizon pinned"
    stores = ("postgresql",)
    rate = 1000.0
    settings = MappingProxyType({"max_prepared_transactions": "2", "wal_level": "logical"})
    needed = ("pins",)

    def torment(self, fleet: Fleet, site: Site) -> None:
        with asking(site) as admin, psycopg.connect(site.url, application_name="lab") as holder:
            # First: to make one waits for every transaction that is open.
            admin.execute("SELECT pg_create_logical_replication_slot('lab', 'pgoutput')")
            holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            holder.execute("SELECT txid_current(), count(*) FROM pg_class")
            with psycopg.connect(site.url, application_name="lab", autocommit=True) as other:
                for statement in ("BEGIN", "SELECT txid_current()", "PREPARE TRANSACTION 'lab'"):
                    other.execute(statement)
            self.dose["pins"] = 3
            for _ in self.ticks(0.5):
                fleet.look()
            admin.execute("SELECT pg_drop_replication_slot('lab')")
            admin.execute("ROLLBACK PREPARED 'lab'")
