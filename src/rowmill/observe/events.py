"""Events of the engine. Counts, codes and keys only: never what is in a row.

| event | when | fields |
| --- | --- | --- |
| claimed | rows were taken | queue, stage, rows |
| settled | an outcome was written | queue, stage, key, move, code, attempt, seconds; at: the line that raised; \
reason: the constraint and the columns of values that the database refused |
| lost | an outcome was refused, because the lease was gone | queue, stage, key, move |
| claim_cancelled | a claim took longer than the database allows (statement_timeout, lock_timeout); the next one is \
smaller | queue, stage, rows |
| settle_delayed | finished rows could not be written for some seconds; said again every minute | queue, rows, \
seconds, reason: locked, timeout or pending |
| settle_resumed | all of them are written, or gone | queue |
| overdue | a slot waits for a thread that is past its time-out | queue, stage, threads, slots |
| loop_blocked | an async handler kept the event loop from all else for more than a second: it computes, or waits \
without `await`; said again when it ends | queue, stage, handler, at: file and line, seconds |
| progress | once a minute, if something was settled | settled, failed, per_minute, ready |
| row_changed | a handler assigned to `lease.row` and did not return the change: nothing writes it; once per stage | \
queue, stage, columns |
| memory_limited | the byte budget keeps a stage from claiming more; said once a minute at most | queue, stage, held, \
most, row: bytes that are held, that may be, and of one row |
| refused | the table does not let a row be claimed; claims step over it | queue, stage, key, reason |
| stuck | the table refuses the move itself | queue, stage, key, reason |
| rescued | rows of dead workers were given back | queue, stage, rows, buried |
| unrescued | the table lets rows of dead workers neither go back nor die | queue, stage, rows |
| unkept | the upkeep of a queue, or of Rowmill's own tables, fails; all else goes on | queue, reason |
| pruned | old finished rows were deleted; refused: the table does not let them go | queue, state, rows, refused |
| rescheduled | our declaration of a schedule took the place of another | schedule, expression, zone |
| overruled | workers that live declare a schedule otherwise: theirs counts while they do | schedule |
| away | the database does not answer | reason |
| back | it does again | - |
| limit_parked | a provider asked us to wait: nobody calls it until then | limit, seconds |
| limit_opened | a provider is down: it is called no more, but for one call now and then | limit |
| limit_closed | it is back | limit |
| limit_off | a provider does not take our credentials: nobody calls it until text otherwise | limit |
| unwritten | the worker left while the database was away; the rows come back by their leases | rows |
| forgotten | the database was set back and knows this worker no more; it signed up again | worker, now |
| alert | a watched condition begins, still holds, or is over | alert, severity, queue, reconciliation, value, \
limit, status |
| unsent | a hook could not pass an alert on | alert, reason |
| unknown_type | no handler here knows this type of event; its events wait, once per type | queue, event_type |
| dead_event | an event of an outbox is dead | severity, alert, queue, event_id, event_type, aggregate_id, attempts, \
error_code, last_error: the one place where what a handler said of a failure reaches the log |
| deaf | the worker can't be woken and only looks now and then | queue, reason |
| finding | a reconciliation found something | reconciliation, kind, key, present, absent, times, new |
| inventory_unreadable | an inventory could not be read to its end | reconciliation, inventory, code, upto |
| uncorrected | a correction failed; the next run tries again | reconciliation, kind, code |
| reconciled | a run ended | reconciliation, run, drift, kinds, new, corrected, remaining, closed, unreadable, seconds |
| alert | more findings than are usual | alert, severity, reconciliation, drift, kinds |
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rowmill.model.errors import one_line
from rowmill.model.judge import Verdict
from rowmill.model.lifecycle import DIE, StateKind
from rowmill.observe.repeated_lines import RepeatedLines
from rowmill.observe.trail import trail

log = logging.getLogger("rowmill")
REPEATED = frozenset({
    "settled", "lost", "refused", "stuck", "rescued", "unrescued", "claim_cancelled", "overdue", "loop_blocked",
    "limit_parked", "limit_opened", "limit_closed",
})  # fmt: skip
"""Events that one mistake or outage may cause by thousands. The log has one of each kind per minute; observers, and the
log at level debug, get all of them."""
ALIKE = ("queue", "stage", "move", "limit", "handler")
"""Fields that two events of a kind have in common, besides their code."""
Observer = Callable[[str, Mapping[str, Any]], None]


class Events:
    """Sends every event to the log and to the observers. An error in an observer does not reach the engine."""

    def __init__(self, observers: list[Observer] | None = None) -> None:
        self.observers = observers if observers is not None else []
        self._away: set[str] = set()
        self._maintenance_failed: set[str] = set()
        self._wakeup_unavailable: set[str] = set()
        self._changed: set[tuple[str, str]] = set()
        self._unknown: set[tuple[str, str]] = set()
        self._differing: set[str] = set()
        self._repeated = RepeatedLines()

    @property
    def watched(self) -> bool:
        """Whether somebody wants to hear of ordinary successes: an observer, or the debug log."""
        return bool(self.observers) or log.isEnabledFor(logging.DEBUG)

    def emit(self, level: int, name: str, **fields: Any) -> None:
        if log.isEnabledFor(level):
            self._write(level, name, fields)
        for observer in self.observers:
            try:
                observer(name, fields)
            except Exception as error:
                log.error("an observer failed on %s: %s", name, trail(error))

    def _write(self, level: int, name: str, fields: Mapping[str, Any]) -> None:
        """Write an event to the log. Of events that may come by thousands, write one of a kind per minute."""
        if name in REPEATED and not log.isEnabledFor(logging.DEBUG):
            self.tell_repeated()
            kind = (level, name, *(fields.get(field, "") for field in ALIKE))
            if not self._repeated.passes(self._repeated.share(kind, str(fields.get("code", "")))):
                return
        # An alert is looked for by its fields, in whatever log the application has.
        more = fields if "alert" in fields else {}
        text = " ".join(f"{k}={one_line(str(v))}" for k, v in fields.items())
        log.log(level, "%s %s", name, text, extra={"rowmill": fields, **more})

    def tell_repeated(self, *, all_of_them: bool = False) -> None:
        """Log how many lines were left out in the minutes that are over; with `all_of_them`, in the current ones
        too."""
        for (level, name, *values), more in self._repeated.ended(all_of_them=all_of_them):
            fields = {field: value for field, value in zip((*ALIKE, "code"), values, strict=True) if value}
            text = " ".join(f"{k}={one_line(str(v))}" for k, v in fields.items())
            text = f"{text}: and {more:,} more like it".lstrip(": ")
            log.log(level, "%s %s", name, text, extra={"rowmill": {**fields, "more": more}})

    def claimed(self, queue: str, stage: str, rows: int) -> None:
        if rows and (self.observers or log.isEnabledFor(logging.DEBUG)):
            self.emit(logging.DEBUG, "claimed", queue=queue, stage=stage, rows=rows)

    def settled(self, verdict: Verdict) -> None:
        failed = verdict.move.failed
        level = logging.WARNING if verdict.move.target is StateKind.DEAD else logging.INFO if failed else logging.DEBUG
        if self.observers or log.isEnabledFor(level):
            fields = self._of(verdict) | {
                "code": verdict.code,
                "attempt": verdict.lease.attempt,
                "seconds": round(verdict.ran, 6),
            }
            if verdict.failure.at:
                fields["at"] = verdict.failure.at
            if verdict.failure.reason:
                fields["reason"] = verdict.failure.reason
            self.emit(level, "settled", **fields)

    def buried_in_claim(self, queue: str, stage: str, key: str, attempt: int, code: str) -> None:
        """Report a row that died in its claim, before it had a lease."""
        fields = {"queue": queue, "stage": stage, "key": key, "move": DIE.name, "code": code, "attempt": attempt}
        self.emit(logging.WARNING, "settled", **fields, seconds=0.0)

    def lost(self, verdict: Verdict) -> None:
        self.emit(logging.WARNING, "lost", **self._of(verdict))

    def claim_cancelled(self, queue: str, stage: str, rows: int) -> None:
        self.emit(logging.WARNING, "claim_cancelled", queue=queue, stage=stage, rows=rows)

    def settle_delayed(self, queue: str, rows: int, seconds: float, reason: str) -> None:
        self.emit(logging.WARNING, "settle_delayed", queue=queue, rows=rows, seconds=seconds, reason=reason)

    def settle_resumed(self, queue: str) -> None:
        self.emit(logging.INFO, "settle_resumed", queue=queue)

    def overdue(self, queue: str, stage: str, slots: int, threads: int) -> None:
        """Report how many slots wait for threads that run past their time-out. When all of them do, nothing is
        claimed."""
        self.emit(logging.WARNING, "overdue", queue=queue, stage=stage, threads=threads, slots=slots)

    def loop_blocked(self, **fields: Any) -> None:
        """Report a handler that blocked the event loop, after it is over."""
        self.emit(logging.WARNING, "loop_blocked", **fields)

    def loop_still_blocked(self, **fields: Any) -> None:
        """Log that the event loop is still blocked. Observers are not called: this runs in another thread than the
        loop's."""
        if log.isEnabledFor(logging.WARNING):
            self._write(logging.WARNING, "loop_blocked", fields)

    def progress(self, **fields: Any) -> None:
        self.emit(logging.INFO, "progress", **fields)

    def row_changed(self, queue: str, stage: str, columns: Sequence[str]) -> None:
        """Warn of changes to `lease.row` that nobody writes, once per queue and stage."""
        if (queue, stage) not in self._changed:
            self._changed.add((queue, stage))
            self.emit(logging.WARNING, "row_changed", queue=queue, stage=stage, columns=",".join(columns))

    def memory_limited(self, queue: str, stage: str, held: int, most: int, row: float) -> None:
        self.emit(logging.INFO, "memory_limited", queue=queue, stage=stage, held=held, most=most, row=int(row))

    def refused(self, queue: str, stage: str, key: str, reason: str) -> None:
        """Report a row that the table does not let be claimed, once. It is tried again now and then."""
        self.emit(logging.WARNING, "refused", queue=queue, stage=stage, key=key, reason=reason)

    def stuck(self, verdict: Verdict, reason: str) -> None:
        self.emit(logging.ERROR, "stuck", **self._of(verdict), reason=reason)

    def rescued(self, queue: str, stage: str, rows: int, buried: int) -> None:
        self.emit(logging.WARNING, "rescued", queue=queue, stage=stage, rows=rows, buried=buried)

    def unrescued(self, queue: str, stage: str, rows: int) -> None:
        self.emit(logging.ERROR, "unrescued", queue=queue, stage=stage, rows=rows)

    def limit(self, change: str, limit: str, seconds: float) -> None:
        """Report that a provider was parked, opened, closed or switched off."""
        fields: dict[str, Any] = {"limit": limit} | ({"seconds": seconds} if change == "parked" else {})
        self.emit(logging.ERROR if change == "off" else logging.WARNING, f"limit_{change}", **fields)

    def limit_differs(self, limit: str, ours: str, others: str, holds: str) -> None:
        """Warn that living processes declare a limit differently. Reported once per limit, until they agree again."""
        if limit not in self._differing:
            self._differing.add(limit)
            self.emit(logging.WARNING, "limit_differs", limit=limit, ours=ours, others=others, holds=holds)

    def limit_agrees(self, limit: str) -> None:
        if limit in self._differing:
            self._differing.discard(limit)
            self.emit(logging.INFO, "limit_agrees", limit=limit)

    def unwritten(self, rows: int) -> None:
        self.emit(logging.ERROR, "unwritten", rows=rows)

    def forgotten(self, worker: int, now: int) -> None:
        self.emit(logging.WARNING, "forgotten", worker=worker, now=now)

    def pruned(self, queue: str, state: str, rows: int, refused: int) -> None:
        self.emit(
            logging.WARNING if refused else logging.INFO, "pruned", queue=queue, state=state, rows=rows, refused=refused
        )

    def rescheduled(self, schedule: str, expression: str, zone: str) -> None:
        self.emit(logging.INFO, "rescheduled", schedule=schedule, expression=expression, zone=zone)

    def overruled(self, schedule: str) -> None:
        self.emit(logging.WARNING, "overruled", schedule=schedule)

    def wakeup_unavailable(self, queue: str, reason: str) -> None:
        """Report once per queue that workers can't be woken and have to poll."""
        if queue not in self._wakeup_unavailable:
            self._wakeup_unavailable.add(queue)
            self.emit(logging.WARNING, "wakeup_unavailable", queue=queue, reason=reason)

    def unknown_type(self, queue: str, event_type: str) -> None:
        """Report an event type without a handler, once per queue and type."""
        if (queue, event_type) not in self._unknown:
            self._unknown.add((queue, event_type))
            self.emit(logging.WARNING, "unknown_type", queue=queue, event_type=event_type)

    def dead_event(self, queue: str, **fields: Any) -> None:
        self.emit(
            logging.CRITICAL, "dead_event", severity="CRITICAL", alert="ADMIN_INTERVENTION_REQUIRED", queue=queue,
            **fields,
        )  # fmt: skip

    def maintenance_failed(self, queue: str, reason: str) -> None:
        """Report that the upkeep of a queue failed; once, until it succeeds again."""
        if queue not in self._maintenance_failed:
            self._maintenance_failed.add(queue)
            self.emit(logging.ERROR, "maintenance_failed", queue=queue, reason=reason)

    def maintenance_succeeded(self, queue: str) -> None:
        self._maintenance_failed.discard(queue)

    def away(self, reason: str, *, who: str) -> None:
        """Report that `who` can't reach the database. Logged once per outage, however many parts notice it."""
        if not self._away:
            self.emit(logging.ERROR, "away", reason=reason)
        self._away.add(who)

    def back(self, *, who: str) -> None:
        if who in self._away:
            self._away.discard(who)
            if not self._away:
                self.emit(logging.WARNING, "back")

    def finding(self, reconciliation: str, fields: Mapping[str, Any]) -> None:
        level = logging.WARNING if fields["new"] else logging.INFO
        self.emit(level, "finding", reconciliation=reconciliation, **fields)

    def inventory_unreadable(self, reconciliation: str, inventory: str, code: str, upto: str | None) -> None:
        self.emit(
            logging.ERROR,
            "inventory_unreadable",
            reconciliation=reconciliation,
            inventory=inventory,
            code=code,
            upto=upto,
        )

    def uncorrected(self, reconciliation: str, kind: str, code: str) -> None:
        self.emit(logging.ERROR, "uncorrected", reconciliation=reconciliation, kind=kind, code=code)

    def reconciled(self, reconciliation: str, **fields: Any) -> None:
        self.emit(logging.INFO, "reconciled", reconciliation=reconciliation, **fields)

    def alert(self, alert: str, severity: str, **fields: Any) -> None:
        """Report something to the person on call. Alerting rules look for the fields `alert` and `severity`."""
        self.emit(logging.getLevelNamesMapping()[severity], "alert", alert=alert, severity=severity, **fields)

    @staticmethod
    def _of(verdict: Verdict) -> dict[str, Any]:
        lease = verdict.lease
        return {
            "queue": lease.queue.name,
            "stage": lease.stage,
            "key": lease.queue.key_text(lease.key),
            "move": verdict.move.name,
        }
