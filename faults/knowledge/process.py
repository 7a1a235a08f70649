"""A process of the lab: `python -m faults.knowledge.process worker|client|comparer`. Never outlives who started it."""

import argparse
import asyncio
import os
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import rowmill as rm
from faults.knowledge.broken import GUARDS
from faults.knowledge.client import ask
from faults.knowledge.comparer import compare
from faults.knowledge.ledger import DeedLedger
from faults.knowledge.site import KnowledgeSite, shorten_waits
from faults.knowledge.worker import record_handling, work
from rowmill.demo.worker import die_with_parent

BROKEN_VARIABLE = "FAULTS_BROKEN"


def main() -> None:
    die_with_parent()
    options = argparse.ArgumentParser()
    options.add_argument("role", choices=("worker", "client", "comparer"))
    options.add_argument("--seed", type=int, required=True)
    options.add_argument("--ledger", type=Path, required=True)
    given = options.parse_args()
    if broken := os.environ.get(BROKEN_VARIABLE):
        GUARDS[broken]()
    shorten_waits()
    site, ledger = KnowledgeSite.by_environment(), DeedLedger(given.ledger)
    record_handling(ledger)
    roles = {
        "worker": partial(work, site, ledger),
        "client": partial(ask, site, ledger, given.seed),
        "comparer": partial(compare, site, ledger),
    }
    with suppress(KeyboardInterrupt):
        run_until_done(roles[given.role])


def run_until_done(role: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a role. If the database goes away while it comes up, begin again, as a service manager would."""
    while True:
        try:
            return asyncio.run(role())
        except rm.errors.DatabaseUnreachable:
            time.sleep(0.2)


if __name__ == "__main__":
    main()
