"""A process of the lab: `python -m faults.knowledge.process worker|client|comparer`. Never outlives who started it."""

import argparse
import asyncio
import os
from contextlib import suppress
from pathlib import Path

from faults.knowledge.broken import GUARDS
from faults.knowledge.client import ask
from faults.knowledge.comparer import compare
from faults.knowledge.ledger import DeedLedger
from faults.knowledge.site import KnowledgeSite, shorten_waits
from faults.knowledge.worker import work
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
    with suppress(KeyboardInterrupt):
        match given.role:
            case "worker":
                asyncio.run(work(site, ledger))
            case "client":
                asyncio.run(ask(site, ledger, given.seed))
            case _:
                asyncio.run(compare(site, ledger))


if __name__ == "__main__":
    main()
