"""Processes that die, or freeze and continue."""

from pathlib import Path

from faults.fleet import Fleet, Member
from faults.ledger import What
from faults.scenario import Scenario, Site
from faults.world import LEASE


def has_refused(folder: Path) -> bool:
    """Return whether a settle has been refused yet."""
    return any(f'"{What.REFUSED}"'.encode() in path.read_bytes() for path in folder.glob("*.ledger"))


class Kills(Scenario):
    """Sends SIGKILL to a worker every second or two. Another one replaces it."""

    name = "workers killed"
    needed = ("kills",)

    def inject(self, fleet: Fleet, site: Site) -> None:
        for _ in self.ticks(fleet.chance.uniform(0.8, 1.6)):
            victim = fleet.pick()
            if victim is not None:
                victim.kill()
                fleet.replace(victim)
                self.dose["kills"] += 1
            fleet.look()


class Freezes(Scenario):
    """Sends SIGSTOP past the lease, then SIGCONT: the worker continues and tries to settle rows that others hold by
    now. Two of three get SIGTERM at once, and try to release their rows."""

    name = "workers frozen past their lease"
    backlog = 1500
    needed = ("freezes", "stale_refused")

    def inject(self, fleet: Fleet, site: Site) -> None:
        frozen: list[tuple[float, Member]] = []
        for passed in self.ticks(0.3, lambda: has_refused(site.folder)):
            for since, member in [one for one in frozen if passed - one[0] > LEASE * 1.8]:
                frozen.remove((since, member))
                self.dose["freezes"] += 1
                if self.dose["freezes"] % 3 == 0:
                    member.wake()
                else:
                    fleet.stop_and_replace(member)
            # Whoever is just coming up would wait for the file that a frozen one has locked.
            if len(frozen) < 2 and fleet.is_up() and (victim := fleet.pick()) is not None:
                victim.freeze()
                frozen.append((passed, victim))
            fleet.look()
        for _, member in frozen:
            member.wake()
