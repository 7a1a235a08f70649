"""What does a row cost the server: round trips, pages, bytes of log?"""

import time

from bench.measures import Scale
from bench.peers import ROWMILL, ROWMILL_WIDE, Peer
from bench.results import Account, Result
from bench.runs import fresh

SO_FAR = """
SELECT xact_commit, pg_current_wal_insert_lsn() - '0/0', blks_hit + blks_read FROM pg_stat_database
WHERE datname = current_database()
"""
"""Transactions, each of which is one round trip on the hot path; bytes of log; pages."""
REPORTED = 1.5
"""Seconds until what a session did is counted, at the latest."""


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
