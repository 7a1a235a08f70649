"""A server that throws its sessions out, falls over, or has no room for more of them."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from faults.fleet import Fleet
from faults.scenario import Scenario, Site

FLEET = "application_name <> 'lab' AND datname IS NOT NULL AND backend_type = 'client backend'"


@contextmanager
def asking(site: Site) -> Iterator["psycopg.Connection[tuple[object, ...]]"]:
    with psycopg.connect(site.url, autocommit=True, application_name="lab") as connection:
        yield connection


class Terminations(Scenario):
    """`pg_terminate_backend` on sessions of the fleet, twice a second."""

    name = "sessions terminated"
    stores = ("postgresql",)
    needed = ("sessions",)

    def torment(self, fleet: Fleet, site: Site) -> None:
        with asking(site) as connection:
            for _ in self.ticks(0.5):
                ended = connection.execute(
                    f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {FLEET} ORDER BY random() LIMIT 3"
                ).fetchall()
                self.dose["sessions"] += len(ended)
                fleet.look()


class Restarts(Scenario):
    """The server ends at once, as by a crash, and is started again, over and over."""

    name = "server restarted at once"
    stores = ("postgresql",)
    needed = ("restarts",)
    most = 20

    def torment(self, fleet: Fleet, site: Site) -> None:
        assert site.server is not None
        for _ in self.ticks(0.6):
            if self.dose["restarts"] >= self.most:
                return
            site.server.down()
            site.server.up()
            self.dose["restarts"] += 1
            fleet.look()


class NoRoom(Scenario):
    """Every connection that the server has is taken by others for a while, and those of the fleet are thrown out."""

    name = "no connection to be had"
    stores = ("postgresql",)
    needed = ("droughts",)

    def torment(self, fleet: Fleet, site: Site) -> None:
        with asking(site) as admin:
            [most] = admin.execute("SHOW max_connections").fetchone() or [0]
            for _ in self.ticks(1.0):
                hoard: list[psycopg.Connection[tuple[object, ...]]] = []
                try:
                    admin.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {FLEET}")
                    while len(hoard) < int(str(most)):
                        hoard.append(psycopg.connect(site.url, application_name="lab"))
                except psycopg.OperationalError:
                    self.dose["droughts"] += 1
                time.sleep(1.0)
                for connection in hoard:
                    connection.close()
                fleet.look()
