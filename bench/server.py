"""A PostgreSQL for measurements: as durable as in production, with memory to match."""

from tests.support.postgres import TemporaryPostgres

SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "shared_buffers": "4GB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "30min",
}


def bench_server() -> TemporaryPostgres:
    return TemporaryPostgres(SETTINGS)
