"""`uvicorn tests.integrations.fastapi.app:app`: an application with a worker inside, on the database of DATABASE_URL.

A row `wait NAME` is handled until the file NAME is in the folder of FOLDER.
"""

import os
import time
from pathlib import Path

from fastapi import FastAPI
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

import rowmill as rm
from rowmill.integrations.fastapi import health_router, rowmill_lifespan
from rowmill.worker import WorkerSettings

GRACE = float(os.environ.get("GRACE", "10"))
SETTINGS = WorkerSettings(poll_base=0.01, poll_max=0.2, heartbeat=0.2, rescue_every=0.2, grace=GRACE)


class Base(DeclarativeBase):
    pass


class Job(rm.QueueMixin, Base):
    __tablename__ = "job"

    id: Mapped[int] = mapped_column(primary_key=True)
    what: Mapped[str]
    pid: Mapped[int | None]


def make_mill(url: str | None = None) -> rm.Mill:
    mill = rm.Mill(url, settings=SETTINGS)
    jobs = mill.queue(Job, lease=1.0)

    @jobs.handler(concurrency=2)
    def work(lease: rm.Lease[Job]) -> dict[str, int]:
        if lease.row.what.startswith("wait "):
            folder, name = Path(os.environ["FOLDER"]), lease.row.what.removeprefix("wait ")
            (folder / f"{name} began").touch()
            while not (folder / name).exists():
                time.sleep(0.01)
        return {"pid": os.getpid()}

    return mill


def make_app(mill: rm.Mill) -> FastAPI:
    app = FastAPI(lifespan=rowmill_lifespan(mill))
    app.include_router(health_router())

    @app.get("/pid")
    async def pid() -> int:
        return os.getpid()

    return app


def __getattr__(name: str) -> FastAPI:
    if name == "app":
        return make_app(make_mill())
    raise AttributeError(name)
