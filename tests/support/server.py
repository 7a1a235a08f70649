"""The PostgreSQL server of a test run."""

import pytest

from tests.support.databases import given_server
from tests.support.postgres import TemporaryPostgres, in_memory

SERVER = pytest.StashKey[TemporaryPostgres]()
SMALL = {"shared_buffers": "64MB"}
"""DROP DATABASE scans all buffers."""


def server_url(config: pytest.Config) -> str:
    """Return the environment's server, the one of the xdist controller, or our own, started on first use."""
    if given := given_server():
        return given
    if hasattr(config, "workerinput"):
        return str(config.workerinput["postgres"])
    server = config.stash.setdefault(SERVER, TemporaryPostgres(SMALL, root=in_memory()))
    return server.start().url


def stop_server(config: pytest.Config) -> None:
    if SERVER in config.stash:
        config.stash[SERVER].stop()
