"""A worker of knowledge bases on misbehaving stores. Says when it begins to handle an event, and when it has ended."""

import asyncio
import signal

import rowmill as rm
from faults.knowledge.ledger import Deed, DeedLedger
from faults.knowledge.site import KnowledgeSite
from rowmill_systems.knowledge.events import dispatching
from rowmill_systems.knowledge.knowledge import Knowledge


async def work(site: KnowledgeSite, ledger: DeedLedger) -> None:
    """Handle events until SIGTERM."""
    knowledge = site.knowledge(ledger)
    async with knowledge.opened(), knowledge.mill.worker() as worker:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
        print("up", flush=True)
        await worker.run()


def record_handling(ledger: DeedLedger) -> None:
    """Have the handlers of this process say what they do."""
    for name, handler in dispatching.HANDLERS.items():
        dispatching.HANDLERS[name] = recorded(handler, ledger)


def recorded(handler: dispatching.Handler, ledger: DeedLedger) -> dispatching.Handler:
    async def handle(knowledge: Knowledge, event: rm.outbox.Event) -> rm.Outcome | None:
        number = ledger.number()
        ledger.say(Deed.HANDLE, number, document=event.aggregate_id or "", event=event.id)
        try:
            return await handler(knowledge, event)
        finally:
            ledger.say(Deed.HANDLE, number, ended=True)

    return handle
