"""The application of bench.outbox: events with a number in their aggregate, and a journal of who began and ended what.

`rowmill work bench.outbox_app:mill`, on the database and in the folder that the environment names.
"""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import rowmill as rm

URL, FOLDER, POLICY, LEASE = "ROWMILL_DATABASE_URL", "OUTBOX_FOLDER", "OUTBOX_POLICY", "OUTBOX_LEASE"
GATES = "OUTBOX_GATES"
SICK, BROKEN = 100, 5
"""One of so many aggregates is broken: its event with this number can't be handled."""


def is_broken(aggregate: int, number: int) -> bool:
    return aggregate % SICK == 0 and number == BROKEN


class Journal:
    """A log that survives its writers, in the order of writing."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "journal"
        self._file: int | None = None

    def write(self, *parts: Any) -> None:
        if self._file is None:
            self._file = os.open(self.path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        os.write(self._file, (" ".join(map(str, parts)) + "\n").encode())


def gate(folder: Path, number: int) -> Path:
    """Return the file that releases events of a gated number."""
    return folder / f"go-{number}"


def build(url: str, folder: Path, policy: Literal["block", "skip"], lease: float, gates: Sequence[int] = ()) -> rm.Mill:
    mill, journal = rm.Mill(url), Journal(folder)
    outbox = mill.outbox(on_dead=policy, lease=lease, concurrency=20)

    @outbox.on("document.process")
    async def process(event: rm.outbox.Event) -> None:
        aggregate, number = event.payload
        journal.write("begin", aggregate, number)
        await asyncio.sleep(0.001)
        while number in gates and not gate(folder, number).exists():
            await asyncio.sleep(0.02)
        if is_broken(aggregate, number):
            raise rm.PermanentError("it can't be handled", code="broken")
        journal.write("end", aggregate, number)

    return mill


if URL in os.environ and FOLDER in os.environ:
    mill = build(
        os.environ[URL],
        Path(os.environ[FOLDER]),
        "skip" if os.environ.get(POLICY) == "skip" else "block",
        float(os.environ.get(LEASE, "5")),
        [int(number) for number in os.environ.get(GATES, "").split()],
    )
