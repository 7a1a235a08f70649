"""F12: intake on a bucket behaves as on a folder."""

from pathlib import Path

import pytest

from systems.tests.intake.house import House, Scribe, house_on
from systems.tests.parts.objects.conftest import S3
from tests.support.seaweed import ACCESS_KEY, BUCKET, SECRET_KEY, SeaweedServer


@pytest.mark.parametrize("place", ["folder", pytest.param("bucket", marks=S3)])
async def test_files_in_a_bucket_are_read_like_those_in_a_folder(
    database_url: str, tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    where = {} if place == "folder" else {"storage": bucket(request, monkeypatch)}
    async with house_on(database_url, tmp_path, Scribe(), **where) as house:
        there, gone = await house.put("total: 1"), await house.put("total: 2")
        await house.intake.storage.delete((await house.file(gone)).storage_key)
        await house.drain()
        assert await outcome(house, there) == ("completed", "")
        assert await outcome(house, gone) == ("failed", "missing_object")
        assert await house.intake.storage.get((await house.file(there)).storage_key, most=100) == b"total: 1"


def bucket(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A bucket of a real server, with its keys where boto3 looks for them."""
    server: SeaweedServer = request.getfixturevalue("server")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    return f"s3://{BUCKET}/{request.getfixturevalue('prefix')}?endpoint_url={server.endpoint}&region=us-east-1"


async def outcome(house: House, number: int) -> tuple[str, str]:
    row = await house.file(number)
    return row.processing_status, (row.processing_error or "").split(":")[0]
