"""`rowmill work tests.schedules.app:mill`: a schedule every second, whose ticks kill their process now and then."""

import os
import signal
from pathlib import Path

import sqlalchemy as sa

import rowmill as rm

FOLDER = "SCHEDULES_FOLDER"
KILL_EVERY = "SCHEDULES_KILL_EVERY"

metadata = sa.MetaData()
effect = sa.Table(
    "effect",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("due", sa.Integer, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
)
mill = rm.Mill(os.environ.get("ROWMILL_DATABASE_URL", "sqlite:///nowhere/at/all.db"))


def journal(tick: rm.schedules.Tick) -> None:
    """A line that survives its writer."""
    folder = os.environ.get(FOLDER)
    if folder is None:
        return
    file = os.open(Path(folder) / "journal", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    try:
        os.write(file, f"{tick.due_at.timestamp():.0f} {tick.attempt} {os.getpid()}\n".encode())
    finally:
        os.close(file)


@mill.every("beat", rm.seconds(1), missed="all", lease=1.0, retry=rm.Retry(attempts=20))
async def beat(tick: rm.schedules.Tick) -> None:
    journal(tick)
    due, kill_every = int(tick.due_at.timestamp()), int(os.environ.get(KILL_EVERY, "0"))
    async with tick.settling() as tx:
        await tx.execute(sa.insert(effect).values(due=due, attempt=tick.attempt))
        if kill_every and due % kill_every == 0 and tick.attempt == 1:
            os.kill(os.getpid(), signal.SIGKILL)


@mill.schedule("cleanup", cron="0 3 * * *", tz="Asia/Shanghai")
def cleanup(tick: rm.schedules.Tick) -> None:
    if os.environ.get("SCHEDULES_FAIL"):
        raise rm.PermanentError("no", code="no")
