"""`python -m systems.tests.intake.dying POINT`: a worker of intake that is killed at that point of its first file."""

import asyncio
import os
import signal
import sys
from typing import Any

from rowmill.testing import QUICK
from rowmill_systems.intake import processing, suggestions
from rowmill_systems.intake.intake import Intake
from rowmill_systems.intake.seam import PROGRESS
from rowmill_systems.intake.settings import IntakeSettings

POINTS = ("claimed", "with its bytes", "half read", "analysed", "about to commit", "committed")


def die(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Dying(Intake):
    def __init__(self, point: str) -> None:
        super().__init__(IntakeSettings())
        self._point, self._analyze = point, self.analyze
        self.analyze = self.analyze_and_die
        vars(processing)["replace_pending"] = self.replace_and_die
        self.mill.observe(lambda name, _: die() if (name, point) == ("settled", "committed") else None)

    async def content(self, file: Any) -> bytes:
        if self._point == "claimed":
            die()
        found = await super().content(file)
        if self._point == "with its bytes":
            die()
        return found

    async def analyze_and_die(self, **given: Any) -> Any:
        if self._point == "half read":
            PROGRESS.set(die)
        found = await self._analyze(**given)
        if self._point == "analysed":
            die()
        return found

    async def replace_and_die(self, session: Any, *given: Any) -> None:
        await suggestions.replace_pending(session, *given)
        await session.flush()
        if self._point == "about to commit":
            die()


async def main(point: str) -> None:
    intake = Dying(point)
    async with intake.opened():
        await intake.mill.drain(settings=QUICK)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
