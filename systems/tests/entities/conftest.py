"""A small world, and a server that speaks for it."""

from collections.abc import AsyncIterator

import pytest

from demos.entities.server import Server, serving
from demos.entities.world import World, make_world


@pytest.fixture(scope="session")
def world() -> World:
    return make_world(120, seed=3)


@pytest.fixture
async def server(world: World) -> AsyncIterator[Server]:
    async with serving(world) as server:
        yield server
