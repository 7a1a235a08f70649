"""Log what a worker asks of its store, before each request and after its reply."""

from collections.abc import Sequence
from time import time
from typing import Any

from faults.ledger import Ledger, What
from rowmill.model.judge import Verdict
from rowmill.model.lease import Lease
from rowmill.model.queue import QueueSpec
from rowmill.model.states import Step
from rowmill.store.port import Renewed, Settled, Store
from rowmill.store.row_sizes import ByteLimit


class Recorder:
    def __init__(self, store: Store, ledger: Ledger) -> None:
        self._store, self._ledger = store, ledger
        self._claim, self._settle, self._renew = store.claim, store.settle, store.renew
        store.claim = self.claim  # type: ignore[method-assign]
        store.settle = self.settle  # type: ignore[method-assign]
        store.renew = self.renew  # type: ignore[method-assign]

    async def claim(
        self, queue: QueueSpec[Any], step: Step, limit: int, within: ByteLimit | None = None
    ) -> list[Lease[Any]]:
        try:
            leases = await self._claim(queue, step, limit, within)
        except BaseException:
            now = time()
            self._ledger.say_all(
                self._ledger.entry(What.UNANSWERED, asked.name, 0, now, token, of.name)
                for token, (asked, of, _) in getattr(self._store, "_unanswered", {}).items()
            )
            raise
        self._note(What.CLAIMED, leases)
        return leases

    async def settle(self, verdicts: Sequence[Verdict], *, skip_locked: bool = False) -> Settled:
        self._judged(What.ASK, verdicts)
        settled = await self._settle(verdicts, skip_locked=skip_locked)
        missing = {id(verdict) for verdict in settled.lost}
        missing |= {id(verdict) for verdict, _ in (*settled.refused, *settled.delayed)}
        self._judged(What.KEPT, [verdict for verdict in verdicts if id(verdict) not in missing])
        self._judged(What.REFUSED, settled.lost)
        return settled

    async def renew(self, leases: Sequence[Lease[Any]]) -> Renewed:
        asked = time()
        renewed = await self._renew(leases)
        missing = set(map(id, (*renewed.lost, *renewed.delayed)))
        self._note(What.RENEWED, [lease for lease in leases if id(lease) not in missing], asked)
        return renewed

    def _note(self, what: What, leases: Sequence[Lease[Any]], at: float | None = None) -> None:
        now = time() if at is None else at
        self._ledger.say_all(
            self._ledger.entry(what, lease.queue.name, lease.key, now, lease.token, lease.stage) for lease in leases
        )

    def _judged(self, what: What, verdicts: Sequence[Verdict]) -> None:
        now = time()
        self._ledger.say_all(
            self._ledger.entry(
                what, verdict.lease.queue.name, verdict.lease.key, now, verdict.lease.token, verdict.lease.stage,
                verdict.move.name,
            )
            for verdict in verdicts
        )  # fmt: skip
