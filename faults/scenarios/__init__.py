"""The faults."""

from faults.scenario import Scenario
from faults.scenarios.commits import CommitKills
from faults.scenarios.disk import DiskFull
from faults.scenarios.handlers import Deployments, Poison, WrongClocks
from faults.scenarios.neighbours import LockedRows, SlowSettles, Stalls
from faults.scenarios.network import Cuts, LostAnswers, Silence, Slow
from faults.scenarios.operators import Operators
from faults.scenarios.pinned import Pinned
from faults.scenarios.processes import Freezes, Kills
from faults.scenarios.recovery import Recovery
from faults.scenarios.server import NoRoom, Restarts, Terminations
from faults.scenarios.standby import LatePromotion, Promotion

SCENARIOS: tuple[type[Scenario], ...] = (
    Freezes, Kills, CommitKills, Terminations, Restarts, Recovery, Promotion, LatePromotion, NoRoom, DiskFull, Cuts,
    LostAnswers, Silence, Slow, LockedRows, Stalls, SlowSettles, Poison, WrongClocks, Deployments, Operators, Pinned,
)  # fmt: skip
