"""A PostgreSQL server for benchmarks: as durable as in production, with suitable memory."""

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
