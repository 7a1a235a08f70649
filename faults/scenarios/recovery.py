"""How soon a fleet is back to its speed after a server restart."""

import time

from faults.fleet import Fleet
from faults.history import History
from faults.scenario import Finding, Scenario, Site

WARM, BEFORE, AFTER, WINDOW = 3.0, 6.0, 14.0, 3.0
"""Seconds: warm-up, measurement before, observation after, and the sliding window."""


class Recovery(Scenario):
    """More rows than the fleet can process, and one restart of the server."""

    name = "back to speed after a restart"
    stores = ("postgresql",)
    rate, backlog = 100.0, 16_000
    needed = ("restarts",)
    wanted, within = 0.95, 10.0

    def inject(self, fleet: Fleet, site: Site) -> None:
        assert site.server is not None
        for _ in self.ticks(0.5, seconds=WARM + BEFORE):
            fleet.look()
        self.down = time.time()
        site.server.down()
        site.server.up()
        self.up = time.time()
        self.dose["restarts"] += 1
        for _ in self.ticks(0.5, seconds=AFTER):
            fleet.look()

    def measure(self, history: History, finding: Finding) -> None:
        """Find the first window after the restart with the speed of before."""
        before = history.rate(self.down - BEFORE, self.down)
        tenths = range(int((AFTER - WINDOW) * 10))
        back = [history.rate(self.up + tenth / 10, self.up + tenth / 10 + WINDOW) / before for tenth in tenths]
        seconds = next((tenth / 10 for tenth in tenths if back[tenth] >= self.wanted), None)
        finding.measured["rows a second before"] = round(before)
        if seconds is not None:
            finding.measured["seconds until they were back"] = seconds
        if seconds is None or seconds > self.within:
            finding.short_of.append(
                f"after {self.within:.0f} s at {back[int(self.within * 10)]:.2f} of the rate before"
            )
