"""What does a worker cost that has nothing to do? How soon is it there? And one that is busy?"""

import os
import time

from bench.measures import Scale
from bench.peers import ROWMILL
from bench.results import Account, Result
from bench.runs import fresh

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def megabytes(pid: int) -> float:
    with open(f"/proc/{pid}/status") as status:
        line = next(line for line in status if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def cpu(pid: int) -> float:
    """Seconds of processor time so far."""
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def worker(server: str, scale: Scale, account: Account) -> None:
    with fresh(ROWMILL, server, 1) as site:
        began = time.monotonic()
        with site.running("work") as [process]:
            _, first, _ = site.wait_for_start(1)
            time.sleep(3.0)
            idle_mb, before = megabytes(process.pid), cpu(process.pid)
            time.sleep(scale.idle_seconds)
            idle_cpu = (cpu(process.pid) - before) / scale.idle_seconds * 100
            site.call("load", scale.jobs)
            site.wait_for(scale.jobs + 1)
            busy_mb = megabytes(process.pid)
    results = [
        Result("idle worker, memory", idle_mb, 60.0, at_most=True, unit="MB"),
        Result("idle worker, processor", idle_cpu, 1.0, at_most=True, unit="%"),
        Result("start of a worker, to its first job", first - began, 0.6, at_most=True, unit="s"),
        Result("busy worker, memory", busy_mb, unit="MB"),
    ]
    account.add(results)
