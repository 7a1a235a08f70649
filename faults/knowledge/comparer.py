"""Compares the stores again and again while they misbehave, with corrections."""

import asyncio
import signal

import sqlalchemy as sa

import rowmill as rm
from faults.knowledge.ledger import Deed, DeedLedger
from faults.knowledge.site import KnowledgeSite
from rowmill_systems.knowledge.consistency import check

EVERY = 3.0


async def compare(site: KnowledgeSite, ledger: DeedLedger) -> None:
    """Compare until SIGTERM."""
    knowledge, stopping = site.knowledge(ledger), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    async with knowledge.opened():
        print("up", flush=True)
        while not stopping.is_set():
            number = ledger.number()
            ledger.say(Deed.COMPARE, number)
            try:
                report = await check(knowledge, execute=True)
                kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(report.run.counts.items()))
                ledger.say(Deed.COMPARE, number, ended=True, findings=report.findings, what=kinds)
            except (rm.errors.RowmillError, sa.exc.SQLAlchemyError):
                pass  # a store or the database is away
            await asyncio.sleep(EVERY)
