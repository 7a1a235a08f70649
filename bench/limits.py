"""What limits let through, and what they cost.

    python -m bench.limits [--seconds 30] [--only rate,budget,cost]

1. Four processes pull as hard as they can against a server that counts, within 50 calls a second: the most in any
   second, and the average.
2. Eight processes share a budget of 1,000 and are killed (kill -9) again and again: what the server counted, what is
   spent in the end, and for how long something stays reserved.
3. A queue with a limit that is too high to bind, beside the same queue without one.
"""

import argparse
import json
import random
import statistics
import time
from dataclasses import replace

from bench.peers.known import ROWMILL, rowmill
from bench.results import Rates, Result
from bench.runs import drained, fresh
from bench.server import bench_server
from tests.limits.app import CRASHED, LEASE
from tests.limits.fleet import Fleet, fleet_on
from tests.support.databases import fresh_database
from tests.support.waiting import until

CALLS, BUDGET = 50, 1000


def rate(server: str, seconds: float) -> list[Result]:
    with fresh_database(server) as url, fleet_on(url, f"rate:{CALLS}/1", int(CALLS * seconds * 2)) as fleet:
        fleet.start(4)
        until(lambda: len(fleet.provider.arrivals) > CALLS * 2)
        began, before = time.monotonic(), len(fleet.provider.arrivals)
        time.sleep(seconds)
        average = (len(fleet.provider.arrivals) - before) / (time.monotonic() - began)
        most = fleet.provider.most_within(1.0)
        put_back = fleet.states().get("ready", 0)
        assert fleet.failures() == 0
    print(json.dumps({"seconds": seconds, "calls": len(fleet.provider.arrivals), "still_waiting": put_back}))
    return [
        Result(f"{CALLS} calls a second, four processes: most in any second", most, CALLS, at_most=True, unit="calls"),
        Result(f"{CALLS} calls a second, four processes: average", average, 45, unit="calls/s"),
    ]


def budget(server: str, crashed: str) -> list[Result]:
    """Kill one of the processes with every sixty calls until the budget is used up."""
    chance, most, kills, kept_for = random.Random(1), 0, 0, 0.0
    given = {CRASHED: crashed}
    with fresh_database(server) as url, fleet_on(url, f"budget:{BUDGET}", BUDGET + 600, **given) as fleet:
        fleet.start(8)
        until(lambda: fleet.provider.arrivals)
        while sum(fleet.budget()) < BUDGET:
            most, kept_for = max(most, sum(fleet.budget())), max(kept_for, fleet.kept_for())
            if len(fleet.provider.arrivals) > 60 * (kills + 1):
                fleet.kill(chance.randrange(8))
                kills += 1
                fleet.start()
        lost_for = came_back(fleet)
        spent, reserved = fleet.budget()
        calls = len(fleet.provider.arrivals)
    print(json.dumps({"crashed": crashed, "kills": kills, "calls": calls, "spent": spent, "reserved": reserved}))
    name = f"budget of {BUDGET}, eight processes, kill -9, crashed={crashed}"
    found = [
        Result(f"{name}: most spent and reserved", max(most, spent), BUDGET, at_most=True, unit="calls"),
        Result(f"{name}: spent in the end", spent, BUDGET, unit="calls"),
        Result(f"{name}: longest that a process that dies keeps a part of it", kept_for, LEASE, True, "seconds"),
        Result(f"{name}: until all of it is spent, after the last kill", lost_for, LEASE + 2.0, True, "seconds"),
    ]
    if crashed == "spent":
        found.append(Result(f"{name}: calls that the provider saw", calls, BUDGET, at_most=True, unit="calls"))
    return found


def came_back(fleet: Fleet) -> float:
    """Return the seconds after the last kill until nothing is reserved and everything is spent."""
    began = time.monotonic()
    until(lambda: fleet.budget() == (BUDGET, 0))
    return time.monotonic() - began


def cost(server: str, jobs: int, repeat: int) -> list[Result]:
    """Measure the cost of limits. The plain queue runs before and after the others in every round, and counts with the
    mean, since the machine drifts. Their difference is the noise. Every other round runs backwards."""
    again, limited, keyed = replace(ROWMILL, name="rowmill again"), rowmill("limited"), rowmill("keyed")
    rates, plain = Rates(), "without a limit"
    for number in range(repeat):
        peers = [ROWMILL, limited, keyed, again]
        for peer in peers if number % 2 == 0 else reversed(peers):
            with fresh(peer, server, jobs) as site:
                rates.add(peer.name, drained(site, jobs))
        rates.add(plain, statistics.mean(rates.found[name][-1] for name in (ROWMILL.name, again.name)))
    print(json.dumps(rates.summary()))
    return [
        Result("drain with a limit that does not bind / without", rates.ratio(limited.name, plain), 0.9),
        Result("the same, per one of 50 keys / without", rates.ratio(keyed.name, plain)),
        Result("without a limit / without one again: the noise", rates.ratio(again.name, ROWMILL.name)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="rate,budget,cost")
    given = parser.parse_args()
    with bench_server() as server:
        if "rate" in given.only:
            tell(rate(server.url, given.seconds))
        if "budget" in given.only:
            tell(budget(server.url, "spent") + budget(server.url, "back"))
        if "cost" in given.only:
            tell(cost(server.url, given.jobs, given.rounds))


def tell(results: list[Result]) -> None:
    for result in results:
        print(json.dumps(result.as_dict()), flush=True)


if __name__ == "__main__":
    main()
