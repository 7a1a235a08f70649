"""Rows that kill, hang or eat memory; workers whose clock is wrong; two versions of the code side by side."""

from faults.fleet import Fleet
from faults.scenario import Scenario, Site


class Poison(Scenario):
    """Rows that kill the process that works on them, stop it for longer than its lease, or take more memory than there
    is. They end dead; the others come through."""

    name = "poison rows"
    needed = ("workers that died",)

    def torment(self, fleet: Fleet, site: Site) -> None:
        for _ in self.ticks(0.2):
            self.tend(fleet)

    def environment(self, worker: int) -> dict[str, str]:
        return {"FAULTS_POISON": "1"}

    def tend(self, fleet: Fleet) -> None:
        for member in [member for member in fleet.members if not member.alive]:
            fleet.replace(member)
            self.dose["workers that died"] += 1


class WrongClocks(Scenario):
    """One worker's clock is ten minutes ahead, another's ten minutes behind; some are killed."""

    name = "clocks ten minutes off"
    needed = ("workers with a wrong clock", "kills")

    def environment(self, worker: int) -> dict[str, str]:
        shift = (0, 600, -600)[worker % 3]
        self.dose["workers with a wrong clock"] += bool(shift)
        return {"FAULTS_CLOCK": str(shift)}

    def torment(self, fleet: Fleet, site: Site) -> None:
        for _ in self.ticks(1.5):
            if (victim := fleet.pick()) is not None:
                victim.kill()
                fleet.replace(victim)
                self.dose["kills"] += 1
            fleet.look()


class Deployments(Scenario):
    """Workers of a new version, with other leases and batches, take the place of the old ones, one by one, and back."""

    name = "two versions side by side"
    needed = ("deployments",)

    def environment(self, worker: int) -> dict[str, str]:
        return {"FAULTS_VERSION": str(worker % 2 + 1)}

    def torment(self, fleet: Fleet, site: Site) -> None:
        for _ in self.ticks(1.0):
            if (leaving := fleet.pick()) is not None:
                fleet.dismiss(leaving)
                self.dose["deployments"] += 1
            fleet.look()
