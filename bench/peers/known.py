"""The peers, and how each is run."""

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench import environments
from bench.environments import HERE, ROOT


@dataclass(frozen=True)
class Peer:
    """A program with the commands of `bench.peers.kit`."""

    name: str
    command: Callable[[], list[str]]
    unfinished: str
    """Query for the number of unfinished jobs in its own table."""
    slow: bool = False
    """Whether it is slower than a few thousand jobs per second. It then gets fewer jobs; its rate does not depend on
    their number."""
    work: tuple[str, ...] = ()
    """The command of its worker, if that is not the program's own. It finds its database in DATABASE_URL."""

    def command_of(self, verb: str, url: str, *numbers: int) -> list[str]:
        if verb == "work" and self.work:
            return list(self.work)
        return [*self.command(), verb, url, *map(str, numbers)]

    def environment(self, folder: str, url: str) -> dict[str, str]:
        """Return the environment of its processes. They keep bytecode, as installed packages have it: a worker that
        compiles its modules starts later and takes more memory."""
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        return {
            **inherited,
            "DATABASE_URL": url,
            "PYTHONPYCACHEPREFIX": str(environments.ENVIRONMENTS / "bytecode"),
            "BENCH_FOLDER": folder,
            "PYTHONPATH": str(ROOT),
            "NODE_PATH": str(environments.ENVIRONMENTS / "node" / "node_modules"),
            "PYTHONWARNINGS": "ignore",
        }


def program(module: str, *options: str, environment: str | None = None) -> Callable[[], list[str]]:
    return lambda: [environments.python(environment), "-m", f"bench.peers.{module}", *options]


def unfinished(table: str, *words: str) -> str:
    """Count state by state, each by its own index, however many rows are finished."""
    counts = [f"(SELECT count(*) FROM {table} WHERE state IN ('{word}'))" for word in words]
    return f"SELECT {' + '.join(counts)}"


def rowmill(shape: str, table: str = "bench_narrow", words: Sequence[str] = ("queued", "processing")) -> Peer:
    return Peer(f"rowmill {shape}", program("rowmill_peer", "--shape", shape), unfinished(table, *words))


def rowmill_work(app: str) -> tuple[str, ...]:
    return (str(Path(sys.executable).with_name("rowmill")), "work", app, "--log-level", "warning")


NARROW = unfinished("bench_narrow", "queued", "processing")
WIDE = unfinished("bench_wide", "queued", "processing")

ROWMILL = Peer("rowmill", program("rowmill_peer"), NARROW)
ROWMILL_WORK = replace(ROWMILL, work=rowmill_work("bench.worker_app:mill"))
ROWMILL_WORK_ORM = replace(ROWMILL, name="rowmill orm class", work=rowmill_work("bench.worker_orm_app:mill"))
"""The workers that users start. Those of `rowmill_peer` are programs of its own, without the command line."""
ROWMILL_WIDE = Peer("rowmill wide", program("rowmill_peer", "--shape", "wide"), WIDE)
ROWMILL_LATENCY = Peer("rowmill", program("rowmill_peer", "--shape", "latency"), NARROW)
RAW = Peer("raw", program("raw_peer"), NARROW)
RAW_TRANSACTIONS = Peer("raw transactions", program("raw_peer", "--transactions"), NARROW)
RAW_SESSIONS = Peer("raw sessions", program("raw_peer", "--sessions"), NARROW)
RAW_WIDE = Peer("raw wide", program("raw_peer", "--wide"), WIDE)
PGQUEUER = Peer("pgqueuer", program("pgqueuer_peer", environment="pgqueuer"), "SELECT count(*) FROM pgqueuer")
PROCRASTINATE = Peer(
    "procrastinate",
    program("procrastinate_peer", environment="procrastinate"),
    "SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')",
    slow=True,
)
GRAPHILE = Peer(
    "graphile-worker",
    lambda: [environments.node(), str(HERE / "node" / "graphile.js")],
    "SELECT count(*) FROM graphile_worker._private_jobs",
)
AWA = Peer(
    "awa",
    program("awa_peer", environment="awa"),
    "SELECT count(*) FROM awa.jobs WHERE state NOT IN ('completed', 'failed', 'cancelled')",
)
HUEY = Peer("huey", program("huey_peer", environment="huey"), "SELECT count(*) FROM task")
