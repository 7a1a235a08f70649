"""Both storages: a test that asks for `storage` runs once on each."""

import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from rowmill_systems.parts.objects import Storage, open_storage
from rowmill_systems.parts.objects.folder import FolderStorage
from rowmill_systems.parts.objects.s3 import S3Storage
from tests.support.seaweed import ACCESS_KEY, BUCKET, SECRET_KEY, SeaweedServer

S3 = pytest.mark.xdist_group("seaweedfs")
"""In one process of the run, so that there is one server."""
_prefixes = itertools.count(1)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeaweedServer]:
    server = SeaweedServer(tmp_path_factory.mktemp("seaweedfs"))
    try:
        yield server.start()
    finally:
        server.kill()


@pytest.fixture
def prefix() -> str:
    """A part of the bucket for one test."""
    return f"test-{next(_prefixes)}"


@pytest.fixture
async def bucket(server: SeaweedServer, prefix: str) -> AsyncIterator[S3Storage]:
    url = f"s3://{BUCKET}/{prefix}?endpoint_url={server.endpoint}&region=us-east-1"
    storage = open_storage(url, access_key=ACCESS_KEY, secret_key=SECRET_KEY)
    assert isinstance(storage, S3Storage)
    yield storage
    await storage.close()


@pytest.fixture
async def folder(tmp_path: Path) -> AsyncIterator[FolderStorage]:
    storage = open_storage(str(tmp_path / "files"))
    assert isinstance(storage, FolderStorage)
    yield storage
    await storage.close()


@pytest.fixture(params=["folder", pytest.param("bucket", marks=S3)])
def storage(request: pytest.FixtureRequest) -> Storage:
    found: Storage = request.getfixturevalue(request.param)
    return found
