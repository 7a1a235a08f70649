"""A server that ends sessions, crashes, or has no connections left."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from types import MappingProxyType

import psycopg

from faults.fleet import Fleet
from faults.scenario import Scenario, Site

FLEET = "application_name <> 'lab' AND datname IS NOT NULL AND backend_type = 'client backend'"


PATIENCE = 60.0
"""Seconds after which a wait is given up."""


@contextmanager
def asking(site: Site) -> Iterator["psycopg.Connection[tuple[object, ...]]"]:
    with psycopg.connect(site.url, autocommit=True, application_name="lab") as connection:
        yield connection


def until(true: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {PATIENCE:.0f} s")
        time.sleep(0.02)


class Terminations(Scenario):
    """Runs `pg_terminate_backend` on sessions of the fleet twice a second."""

    name = "sessions terminated"
    stores = ("postgresql",)
    needed = ("sessions",)

    def inject(self, fleet: Fleet, site: Site) -> None:
        with asking(site) as connection:
            for _ in self.ticks(0.5):
                ended = connection.execute(
                    f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {FLEET} ORDER BY random() LIMIT 3"
                ).fetchall()
                self.dose["sessions"] += len(ended)
                fleet.look()


class Restarts(Scenario):
    """Stops the server immediately, like a crash, and starts it again, over and over."""

    name = "server restarted at once"
    stores = ("postgresql",)
    needed = ("restarts",)
    enough = 20

    def inject(self, fleet: Fleet, site: Site) -> None:
        assert site.server is not None
        for _ in self.ticks(0.6, lambda: self.dose["restarts"] >= self.enough):
            if self.dose["restarts"] >= self.enough:
                return
            site.server.down()
            site.server.up()
            self.dose["restarts"] += 1
            fleet.look()


class NoRoom(Scenario):
    """Uses up all connections of the server for a while, and ends those of the fleet."""

    name = "no connection to be had"
    stores = ("postgresql",)
    needed = ("droughts",)
    settings = MappingProxyType({"max_connections": "60"})

    def inject(self, fleet: Fleet, site: Site) -> None:
        with asking(site) as admin:
            for _ in self.ticks(1.0):
                with ExitStack() as hoard:
                    while end_sessions(admin):  # some are back sooner than we have taken their place
                        with suppress(psycopg.OperationalError):
                            while True:
                                hoard.enter_context(closing(psycopg.connect(site.url, application_name="lab")))
                    self.dose["droughts"] += 1
                    time.sleep(1.0)
                fleet.look()


def end_sessions(admin: "psycopg.Connection[tuple[object, ...]]") -> int:
    """End every session of the fleet. Return their number."""
    return len(admin.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {FLEET}").fetchall())
