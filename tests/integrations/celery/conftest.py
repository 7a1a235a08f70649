"""A mill whose tables exist, and a Celery that needs no broker: its tasks are called."""

import asyncio
from collections.abc import Iterator

import pytest
from celery import Celery

import rowmill as rm
from rowmill.integrations.celery.loop_thread import close_loop_thread
from tests.integrations.parcels import SIZES, make_mill


@pytest.fixture
def mill(database_url: str) -> rm.Mill:
    mill = make_mill(database_url)
    asyncio.run(mill.migrate(tables=True))
    SIZES.clear()
    return mill


@pytest.fixture
def app() -> Iterator[Celery]:
    with Celery("test", broker="memory://", set_as_current=False) as app:
        yield app


@pytest.fixture(autouse=True)
def _no_loop_is_left() -> Iterator[None]:
    yield
    close_loop_thread()
