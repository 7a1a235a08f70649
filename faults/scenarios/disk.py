"""A disk that fills up and is freed again."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import psycopg
from sqlalchemy import make_url

from faults.fleet import Fleet
from faults.scenario import Scenario, Site
from faults.small_disk import SmallDisk, small_disk

MEGABYTES = 400
FULL_SECONDS = 1.5


class DiskFull(Scenario):
    """Fills the disk of the database to the last byte, again and again. A server that stops because of it is started
    when there is space again."""

    name = "disk full"
    needed = ("times full", "writes refused")
    settings = MappingProxyType({"min_wal_size": "32MB", "max_wal_size": "64MB", "shared_buffers": "32MB"})
    disk: SmallDisk

    @contextmanager
    def ground(self) -> Iterator[Path | None]:
        with small_disk(MEGABYTES) as self.disk:
            yield self.disk.path

    def inject(self, fleet: Fleet, site: Site) -> None:
        for _ in self.ticks(1.5):
            self.disk.fill()
            self.dose["times full"] += 1
            until = time.monotonic() + FULL_SECONDS
            while time.monotonic() < until:
                if refused(site):
                    self.dose["writes refused"] += 1
                time.sleep(0.2)
            self.disk.clear()
            if site.server is not None and not reachable(site):
                site.server.down()
                site.server.up()
                self.dose["crashes of the server"] += 1
            fleet.look()


def refused(site: Site) -> bool:
    """Return whether a write fails for lack of space."""
    try:
        if site.server is None:
            with sqlite3.connect(make_url(site.url).database or "", timeout=0.1) as file:
                file.execute("CREATE TABLE ballast AS SELECT randomblob(100000)")
                file.execute("DROP TABLE ballast")
        else:
            with psycopg.connect(site.url, autocommit=True, application_name="lab") as connection:
                connection.execute(
                    "CREATE UNLOGGED TABLE ballast AS SELECT generate_series(1, 100000); DROP TABLE ballast"
                )
    except psycopg.errors.DiskFull:
        return True
    except sqlite3.OperationalError as error:
        return error.sqlite_errorname == "SQLITE_FULL"
    except psycopg.OperationalError:
        return False
    return False


def reachable(site: Site) -> bool:
    try:
        psycopg.connect(site.url, application_name="lab", connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True
