"""The demo's handler: calls a simulated provider that is slow, fails, or kills the process."""

import asyncio
import os
import signal
from typing import Any

import sqlalchemy as sa

import rowmill as rm
from rowmill.demo.companies import INDUSTRY, Company, Effect
from rowmill.demo.fate import FateKind, Fates
from rowmill.demo.ledger import LedgerWriter

CONCURRENCY = 16


def register_handler(queue: rm.Queue[Company], fates: Fates, ledger: LedgerWriter) -> None:
    """Register the handler. It writes every start and end to the ledger."""
    store = queue.mill.store

    @queue.handler(concurrency=CONCURRENCY)
    async def enrich(lease: rm.Lease[Company]) -> dict[str, Any] | None:
        company = lease.row
        ledger.start(company.id, lease.attempt)
        try:
            fate = fates.of(company.id)
            if fate.kind is FateKind.POISON:
                os.kill(os.getpid(), signal.SIGKILL)
            await asyncio.sleep(fate.seconds)
            if fate.kind is FateKind.GONE:
                raise rm.PermanentError("the registry does not know it", code="no_such_company")
            if lease.attempt <= fate.failures:
                raise rm.TransientError("the provider did not answer", code="provider_timeout")
            if fate.own_transaction:
                async with lease.settling() as tx:
                    effect = {"company_id": company.id, "worker": store.worker, "via": "settling"}
                    await tx.execute(sa.insert(Effect).values(effect))
                return None
            return {
                "industry": INDUSTRY[company.id % len(INDUSTRY)],
                "employees": company.id % 5000,
                "enriched_by": store.worker,
            }
        finally:
            ledger.end(company.id, lease.attempt)
