"""Cost of a row on the server: round trips, pages, bytes of WAL."""

import asyncio
import time

import asyncpg
import sqlalchemy as sa

import rowmill as rm
from bench.measures import Scale
from bench.peers.known import ROWMILL, ROWMILL_WIDE, Peer
from bench.results import Account, Result
from bench.runs import fresh
from bench.tables import STATES, narrow
from rowmill.model import lifecycle
from rowmill.model.judge import Verdict
from rowmill.store.postgres.claim import claim_statement
from rowmill.store.postgres.session import SESSION
from rowmill.store.postgres.store import PostgresStore
from rowmill.store.settle_batch import settle_batches
from tests.plans.explaining import Explaining

SO_FAR = """
SELECT xact_commit, pg_current_wal_insert_lsn() - '0/0', blks_hit + blks_read FROM pg_stat_database
WHERE datname = current_database()
"""
"""Transactions (one per round trip on the hot path), bytes of WAL, pages."""
REPORTED = 1.5
"""Seconds until the statistics of a session are counted."""


def server_side(server: str, scale: Scale, account: Account) -> None:
    results = []
    for peer in (ROWMILL, ROWMILL_WIDE):
        trips, log, pages = per_row(server, peer, scale.jobs)
        if peer is ROWMILL:
            results.append(Result("round trips per 1,000 rows", trips * 1000, 12.0, at_most=True, unit="trips"))
        results.append(Result(f"log per row, {peer.name}", log, unit="bytes"))
        results.append(Result(f"pages touched per row, {peer.name}", pages, unit="pages"))
    account.add(results)


def per_row(server: str, peer: Peer, jobs: int) -> list[float]:
    with fresh(peer, server, jobs) as site, site.asking() as connection:
        time.sleep(REPORTED)
        before = connection.execute(SO_FAR).fetchone()
        with site.running("work"):
            site.wait_for_start(jobs)
            time.sleep(REPORTED)
        time.sleep(REPORTED)
        after = connection.execute(SO_FAR).fetchone()
    return [float(late - early) / jobs for early, late in zip(before, after, strict=True)]


BATCH = 1000


def statements(server: str, scale: Scale, account: Account) -> None:
    """Measure a claim and a settle of a thousand rows with EXPLAIN (ANALYZE, BUFFERS, WAL)."""
    with fresh(ROWMILL, server, scale.jobs) as site:
        account.add(asyncio.run(explained(site.url)))


async def explained(url: str) -> list[Result]:
    mill = rm.Mill(url)
    queue = mill.queue(narrow(sa.MetaData()), states=STATES)
    async with mill.opened() as store:
        assert isinstance(store, PostgresStore)
        store.worker = 1
        statements, step = store.statements(queue), queue.steps[0]
        leases = await store.claim(queue, step, BATCH)
        mark = statements.mark(step)
        claim = (statements.once(claim_statement, step, mark.shape), 7, BATCH, step.lease, *mark.arguments())
        [flush] = settle_batches([Verdict(lease, lifecycle.DONE) for lease in leases], lambda: 1)
        statement, arguments = store.settlement.settle_statement(flush)
        connection = await asyncpg.connect(url, server_settings=SESSION)
        results = []
        for name, asked in (("claim", claim), ("settle", (statement, *arguments))):
            plan = await Explaining(connection).cost(*asked)
            results += [
                Result(f"{name} of {BATCH:,}, pages per row", plan.buffers / BATCH, unit="pages"),
                Result(f"{name} of {BATCH:,}, log per row", plan.root["WAL Bytes"] / BATCH, unit="bytes"),
                Result(f"{name} of {BATCH:,}, on the server", plan.root["Actual Total Time"], unit="ms"),
            ]
        await connection.close()
    return results
