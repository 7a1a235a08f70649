"""F12: intake on a bucket behaves as on a folder."""

from pathlib import Path

import pytest

from systems.tests.intake.harness import FakeAnalyzer, IntakeHarness, intake_on
from systems.tests.parts.objects.conftest import S3
from tests.support.seaweed import ACCESS_KEY, BUCKET, SECRET_KEY, SeaweedServer


@pytest.mark.parametrize("place", ["folder", pytest.param("bucket", marks=S3)])
async def test_files_in_a_bucket_are_read_like_those_in_a_folder(
    database_url: str, tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    where = {} if place == "folder" else {"storage": bucket(request, monkeypatch)}
    async with intake_on(database_url, tmp_path, FakeAnalyzer(), **where) as harness:
        there, gone = await harness.put("total: 1"), await harness.put("total: 2")
        await harness.intake.storage.delete((await harness.file(gone)).storage_key)
        await harness.drain()
        assert await outcome(harness, there) == ("completed", "")
        assert await outcome(harness, gone) == ("failed", "missing_object")
        assert await harness.intake.storage.get((await harness.file(there)).storage_key, most=100) == b"total: 1"


def bucket(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A bucket of a real server, with its keys where boto3 looks for them."""
    server: SeaweedServer = request.getfixturevalue("server")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    return f"s3://{BUCKET}/{request.getfixturevalue('prefix')}?endpoint_url={server.endpoint}&region=us-east-1"


async def outcome(harness: IntakeHarness, number: int) -> tuple[str, str]:
    row = await harness.file(number)
    return row.processing_status, (row.processing_error or "").split(":")[0]
