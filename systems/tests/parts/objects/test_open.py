"""A storage by its URL, and what is said of a wrong one."""

import subprocess
import sys
from pathlib import Path

import pytest

import rowmill as rm
from rowmill_systems.parts.objects import open_storage
from rowmill_systems.parts.objects.folder import FolderStorage
from rowmill_systems.parts.objects.s3 import S3Storage


def test_a_path_is_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for url in ("./files", f"file://{tmp_path}/files", f"file://localhost{tmp_path}/fil%65s"):
        storage = open_storage(url)
        assert isinstance(storage, FolderStorage)
        assert storage.root == tmp_path / "files"
    assert not (tmp_path / "files").exists(), "nothing is touched before it is used"


def test_a_bucket_with_its_server() -> None:
    storage = open_storage("s3://bucket/a/b/?endpoint_url=http://127.0.0.1:9000&region=eu-central-1")
    assert isinstance(storage, S3Storage)
    assert (storage.bucket, storage.prefix) == ("bucket", "a/b/")
    assert storage.endpoint == "http://127.0.0.1:9000"


@pytest.mark.parametrize(
    ("url", "fix"),
    [
        ("", "./files"),
        ("ftp://planted-secret@host/x", "file:///var/lib/files"),
        ("file://another/var/files", "three slashes"),
        ("file:///", "file:///var/lib/files"),
        ("s3:///prefix", "s3://bucket/prefix"),
        ("s3://host:9000/bucket", "endpoint_url="),
        ("s3://planted-key:planted-secret@bucket", "access_key and secret_key"),
        ("s3://bucket?secret=planted-secret", "endpoint_url and region"),
        ("s3://bucket?endpoint_url=planted-secret", "http:// or https://"),
        ("s3://bucket?endpoint_url=https://planted-secret:x@host", "http:// or https://"),
        ("s3://[planted-secret", "s3://bucket/prefix"),
    ],
)
def test_a_wrong_url_is_refused_with_its_fix_and_not_shown(url: str, fix: str) -> None:
    with pytest.raises(rm.errors.DeclarationError) as raised:
        open_storage(url)
    assert fix in str(raised.value)
    assert "planted" not in str(raised.value)


def test_half_of_a_key_is_refused() -> None:
    with pytest.raises(rm.errors.DeclarationError, match="go together"):
        open_storage("s3://bucket", access_key="a")


def test_without_boto3_a_bucket_is_refused_and_a_folder_is_not() -> None:
    script = (
        "import sys\n"
        "sys.modules['boto3'] = None\n"
        "from rowmill_systems.parts.objects import open_storage\n"
        "open_storage('./files')\n"
        "assert 'botocore' not in sys.modules\n"
        "open_storage('s3://bucket')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "boto3 is not installed. Run: pip install 'rowmill-systems[intake,s3]'" in done.stderr
