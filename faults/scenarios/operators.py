"""People and scripts who do everything at once, while workers die."""

import json
from pathlib import Path

from faults.fleet import Fleet, FleetBroke, Member, told
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
    """An operator does all that the command line offers, in turns and without a pause, and is killed now and then; so
    are workers. Indexes are dropped under them and made again."""

    name = "operators at work"
    rate = 100.0
    needed = ("kills", "operators killed", *DOSES.values())
    guards = ("requeue", "cancel", "prune")

    def torment(self, fleet: Fleet, site: Site) -> None:
        operator, patience = self._hire(fleet)
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
                operator, patience = self._hire(fleet)
        self._dismiss(fleet, operator)

    @staticmethod
    def _hire(fleet: Fleet) -> tuple[Member, int]:
        """An operator who is up, and the number of actions after which it is killed."""
        operator = fleet.hire("faults.operator")
        operator.wait_until_up()
        return operator, fleet.chance.randint(*LIVES)

    def _dismiss(self, fleet: Fleet, operator: Member) -> None:
        """The last one leaves nothing paused."""
        fleet.others.remove(operator)
        operator.process.terminate()
        if operator.process.wait(LEAVE_SECONDS):
            raise FleetBroke(told(operator))

    @staticmethod
    def _actions(ledger: Path) -> int:
        """How many actions were answered."""
        return ledger.read_bytes().count(ANSWERED) if ledger.exists() else 0

    def _all_done(self, site: Site) -> bool:
        """Was every kind of action answered, and somebody of each kind killed?"""
        ledgers = b"".join(path.read_bytes() for path in site.folder.glob("operator-*.ledger"))
        answers = [line for line in ledgers.splitlines() if ANSWERED in line and line.endswith(b"}")]
        killed = self.dose["kills"] and self.dose["operators killed"]
        return bool(killed) and all(any(_changed(line, verb) for line in answers) for verb in DOSES)

    def count(self, history: History) -> None:
        for done in operations(history.entries):
            if done.rows is not None:
                self.dose[DOSES[done.verb]] += done.rows if done.verb in OF_ROWS else 1


def _changed(answer: bytes, verb: Verb) -> bool:
    """Is it the answer to such an action, one that changed rows if it is there for that?"""
    about = json.loads(answer)
    return bool(about["move"] == verb and (about["rows"] or verb not in OF_ROWS))
