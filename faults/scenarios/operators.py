"""Operators who do everything at once, while workers die."""

import json
from pathlib import Path

from faults.fleet import Fleet, FleetBroke, Member, last_lines
from faults.history import History
from faults.operations import Verb, operations
from faults.scenario import Scenario, Site

DOSES = {
    Verb.REQUEUE: "rows requeued",
    Verb.CANCEL: "rows cancelled",
    Verb.PRUNE: "rows pruned",
    Verb.RESCUE: "rescues",
    Verb.PAUSE: "pauses",
    Verb.RESUME: "resumes",
    Verb.MIGRATE: "migrations",
    Verb.PLAN: "plans",
    Verb.ADOPT: "adoptions",
    Verb.COUNT: "counts",
}
LEAVE_SECONDS = 30.0
LIVES = 8, 24
"""Actions after which an operator is killed."""
OF_ROWS = (Verb.REQUEUE, Verb.CANCEL, Verb.PRUNE)
ANSWERED = b'"operated"'


class Operators(Scenario):
    """An operator runs all commands in turn without a pause, and is killed now and then, like workers. Indexes are
    dropped and created again."""

    name = "operators at work"
    rate = 100.0
    needed = ("kills", "operators killed", *DOSES.values())
    guards = ("requeue", "cancel", "prune")

    def inject(self, fleet: Fleet, site: Site) -> None:
        operator, patience = self._start_operator(fleet)
        for _ in self.ticks(0.3, lambda: self._all_done(site)):
            fleet.look()
            # Whoever is just coming up has nothing in hand.
            if fleet.is_up() and (victim := fleet.pick()) is not None:
                victim.kill()
                fleet.replace(victim)
                self.dose["kills"] += 1
            if self._actions(operator.ledger) >= patience:
                fleet.others.remove(operator)
                operator.kill()
                self.dose["operators killed"] += 1
                operator, patience = self._start_operator(fleet)
        self._stop_operator(fleet, operator)

    @staticmethod
    def _start_operator(fleet: Fleet) -> tuple[Member, int]:
        """Start an operator. Return it with the number of actions after which it is killed."""
        operator = fleet.start_other("faults.operator")
        operator.wait_until_up()
        return operator, fleet.chance.randint(*LIVES)

    def _stop_operator(self, fleet: Fleet, operator: Member) -> None:
        """Stop the last operator, and resume what is paused."""
        fleet.others.remove(operator)
        operator.process.terminate()
        if operator.process.wait(LEAVE_SECONDS):
            raise FleetBroke(last_lines(operator))

    @staticmethod
    def _actions(ledger: Path) -> int:
        """Count completed actions."""
        return ledger.read_bytes().count(ANSWERED) if ledger.exists() else 0

    def _all_done(self, site: Site) -> bool:
        """Return whether every kind of action was completed, and operators and workers were killed."""
        ledgers = b"".join(path.read_bytes() for path in site.folder.glob("operator-*.ledger"))
        answers = [line for line in ledgers.splitlines() if ANSWERED in line and line.endswith(b"}")]
        killed = self.dose["kills"] and self.dose["operators killed"]
        return bool(killed) and all(any(_changed(line, verb) for line in answers) for verb in DOSES)

    def count(self, history: History) -> None:
        for done in operations(history.entries):
            if done.rows is not None:
                self.dose[DOSES[done.verb]] += done.rows if done.verb in OF_ROWS else 1


def _changed(answer: bytes, verb: Verb) -> bool:
    """Return whether this is the reply to such an action, and, if it should change rows, whether it did."""
    about = json.loads(answer)
    return bool(about["move"] == verb and (about["rows"] or verb not in OF_ROWS))
