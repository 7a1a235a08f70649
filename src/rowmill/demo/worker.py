"""A worker process of the demo: `python -m rowmill.demo.worker`. It never outlives the demo."""

import argparse
import asyncio
import ctypes
import os
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rowmill.demo.companies import demo_mill
from rowmill.demo.enrich import register_handler
from rowmill.demo.fate import Fates
from rowmill.demo.ledger import LedgerWriter

URL_VARIABLE = "ROWMILL_DEMO_DATABASE_URL"
PR_SET_PDEATHSIG = 1


def main() -> None:
    die_with_parent()
    options = argparse.ArgumentParser()
    options.add_argument("--rows", type=int, required=True)
    options.add_argument("--seed", type=int, required=True)
    options.add_argument("--ledger", type=Path, required=True)
    given = options.parse_args()
    asyncio.run(work(os.environ[URL_VARIABLE], Fates(given.rows, given.seed), LedgerWriter(given.ledger)))


async def work(url: str, fates: Fates, ledger: LedgerWriter) -> None:
    """Run the worker until SIGTERM."""
    mill, companies = demo_mill(url)
    register_handler(companies, fates, ledger)

    def observe(event: str, fields: Mapping[str, Any]) -> None:
        if event == "lost":
            ledger.lost(fields["key"], fields["move"])
        elif event == "rescued":
            ledger.rescued(fields["rows"], fields["buried"])

    mill.observe(observe)
    async with mill.worker() as worker:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
        ledger.up(mill.store.worker)
        await worker.run()


def die_with_parent() -> None:
    """End this process when the demo ends, however it ends: by a signal from the kernel, which also reaches a frozen
    process; where that is unavailable, or if the demo was gone already, when standard input closes."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

    def watch() -> None:
        while os.read(0, 1024):
            pass
        os._exit(1)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()


if __name__ == "__main__":
    main()
