"""Rows that kill, hang or eat memory; workers whose clock is wrong; two versions of the code side by side."""

from faults.fleet import Fleet
from faults.history import History
from faults.ledger import What
from faults.scenario import Scenario, Site
from faults.world import Item, poison
from rowmill.model.lifecycle import DONE

DOSES = {"kills": "rows that killed", "hangs": "rows that hung", "eats": "rows that ate memory"}


class Poison(Scenario):
    """Rows that kill their process, freeze it past its lease, or use more memory than there is. They end dead; the
    others succeed."""

    name = "poison rows"
    needed = ("workers that died", *DOSES.values())

    def inject(self, fleet: Fleet, site: Site) -> None:
        for _ in self.ticks(0.2):
            self.while_finishing(fleet)

    def environment(self, worker: int) -> dict[str, str]:
        return {"FAULTS_POISON": "1"}

    def while_finishing(self, fleet: Fleet) -> None:
        for member in [member for member in fleet.members if not member.alive]:
            fleet.replace(member)
            self.dose["workers that died"] += 1

    def count(self, history: History) -> None:
        """Count the poison rows of each kind whose handlers started."""
        items = [entry for entry in history.entries if entry.queue == Item.__tablename__ and entry.what is What.END]
        for key in {entry.key for entry in items if entry.move == DONE.name}:
            if (kind := poison(key)) is not None:
                self.dose[DOSES[kind]] += 1


class WrongClocks(Scenario):
    """One worker's clock is ten minutes ahead, another's ten minutes behind, and some are killed. Only Python's clock
    is wrong: SQLite uses the clock of the machine, which all workers share."""

    name = "clocks ten minutes off"
    needed = ("workers with a wrong clock", "kills")

    def environment(self, worker: int) -> dict[str, str]:
        shift = (0, 600, -600)[worker % 3]
        self.dose["workers with a wrong clock"] += bool(shift)
        return {"FAULTS_CLOCK": str(shift)}

    def inject(self, fleet: Fleet, site: Site) -> None:
        for _ in self.ticks(1.5):
            if (victim := fleet.pick()) is not None:
                victim.kill()
                fleet.replace(victim)
                self.dose["kills"] += 1
            fleet.look()


class Deployments(Scenario):
    """Workers of a new version, with other leases and batches, replace the old ones one by one, and back."""

    name = "two versions side by side"
    needed = ("deployments",)

    def environment(self, worker: int) -> dict[str, str]:
        return {"FAULTS_VERSION": str(worker % 2 + 1)}

    def inject(self, fleet: Fleet, site: Site) -> None:
        for _ in self.ticks(1.0):
            if (leaving := fleet.pick()) is not None:
                fleet.stop_and_replace(leaving)
                self.dose["deployments"] += 1
            fleet.look()
