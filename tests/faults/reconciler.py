"""A process that runs a reconciliation, and is killed in the middle of its corrections.

    python -m tests.faults.reconciler URL PAGES

After so many pages it kills itself inside the next one: its corrections are written and not committed.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence

from sqlalchemy.ext.asyncio import AsyncConnection

from rowmill.reconcile import Finding
from tests.reconcile.warehouse import Warehouse


async def main(url: str, pages: int) -> None:
    house, calls = Warehouse(url), 0

    async def correct(findings: Sequence[Finding], tx: AsyncConnection) -> None:
        nonlocal calls
        await house.reprocess(findings, tx)
        if calls == pages:
            os.kill(os.getpid(), signal.SIGKILL)
        calls += 1

    await house.declare(correct=correct, cap=None).run(execute=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
