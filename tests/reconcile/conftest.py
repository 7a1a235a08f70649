"""A warehouse on either store."""

import pytest

from tests.reconcile.warehouse import Warehouse


@pytest.fixture
async def house(database_url: str) -> Warehouse:
    return await Warehouse(database_url).build()
