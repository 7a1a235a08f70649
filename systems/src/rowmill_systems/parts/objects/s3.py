"""Store files in a bucket of AWS S3, MinIO, SeaweedFS or another S3 server. Needs the extra `s3`.

Bytes are collected on this machine, 8 MiB of a file in memory and the rest in an unnamed temporary file, and then
uploaded under their key, which is their hash. To upload them at once would need a temporary object, a copy and a
deletion for each file. This way an upload that breaks off costs the bucket nothing, and nothing is left of a killed
process. Objects in S3 are visible whole or not at all.
"""

import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3  # type: ignore[import-untyped]
from boto3.s3.transfer import TransferConfig  # type: ignore[import-untyped]
from botocore.config import Config  # type: ignore[import-untyped]

from rowmill_systems.parts.objects.disk import translated as on_disk
from rowmill_systems.parts.objects.errors import MissingObject, StorageFailed
from rowmill_systems.parts.objects.keys import SHAPE, name_of, parts_of
from rowmill_systems.parts.objects.port import DAY, Facts
from rowmill_systems.parts.objects.s3_errors import translated
from rowmill_systems.parts.objects.streams import CHUNK, FileIncoming, ThreadDownload, check_size, checked
from rowmill_systems.parts.objects.threads import StorageThreads

MEBIBYTE = 1024 * 1024
PART = 8 * MEBIBYTE
"""Larger files are uploaded in parts of this size. If one part fails, none stays."""
CONNECT_SECONDS, READ_SECONDS = 5.0, 30.0
TRIES = 3


class S3Storage:
    """A Storage below `prefix` in an existing bucket.

    Without keys, boto3 looks for them in the environment, in its files and in the role of the machine.
    """

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        *,
        endpoint_url: str | None = None,
        region: str | None = None,
        access_key: str | None = None,
        secret_key: str | None = None,
        spool: str | None = None,
        connect_seconds: float = CONNECT_SECONDS,
        read_seconds: float = READ_SECONDS,
        tries: int = TRIES,
    ) -> None:
        """`spool` is the folder for bytes that wait, in place of the default one for temporary files."""
        self.bucket, self.prefix = bucket, f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self.endpoint: str | None = endpoint_url
        self._spool = spool
        self._threads = StorageThreads("rowmill-s3")
        config = Config(
            signature_version="s3v4",
            # The hash of the body is signed: a server that speaks S3 checks what it got. Newer checksums are not known
            # to all of them.
            s3={"addressing_style": "path", "payload_signing_enabled": True},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            connect_timeout=connect_seconds,
            read_timeout=read_seconds,
            retries={"mode": "standard", "total_max_attempts": tries},
            max_pool_connections=self._threads.most,
        )
        self._client: Any = boto3.session.Session().client(
            "s3",
            endpoint_url=endpoint_url,
            region_name=region,
            aws_access_key_id=access_key,
            aws_secret_access_key=secret_key,
            config=config,
        )

    def _object(self, key: str) -> dict[str, str]:
        parts_of(key)
        return {"Bucket": self.bucket, "Key": self.prefix + key}

    @asynccontextmanager
    async def receive(self, *, most: int | None = None) -> AsyncIterator["S3Incoming"]:
        file = tempfile.SpooledTemporaryFile(PART, dir=self._spool)  # noqa: SIM115 closed by drop
        incoming = S3Incoming(file, self._threads, most, self._upload)
        try:
            yield incoming
        finally:
            await self._threads.finish(file.close)

    def _upload(self, file: Any, key: str) -> None:
        in_parts = TransferConfig(multipart_threshold=PART, multipart_chunksize=PART, use_threads=False)
        place = self._object(key)
        with translated(missing=StorageFailed):
            self._client.upload_fileobj(file, place["Bucket"], place["Key"], Config=in_parts)

    async def get(self, key: str, *, most: int) -> bytes:
        return await self._threads.run(self._get, key, most)

    def _get(self, key: str, most: int) -> bytes:
        with translated():
            found = self._client.get_object(**self._object(key))
            with closing(found["Body"]) as body:
                check_size(found["ContentLength"], most)
                return checked(body.read(), key)

    async def open(self, key: str) -> ThreadDownload:
        place = self._object(key)
        with translated():
            found = await self._threads.finish(
                lambda: self._client.get_object(**place), undo=lambda found: found["Body"].close()
            )
        body = found["Body"]

        def read() -> bytes:
            with translated():
                return bytes(body.read(CHUNK))

        return ThreadDownload(found["ContentLength"], read, body.close, self._threads)

    async def delete(self, key: str) -> None:
        place = self._object(key)
        with translated():
            await self._threads.run(self._client.delete_object, **place)

    async def exists(self, key: str) -> bool:
        return await self._threads.run(self._exists, key)

    def _exists(self, key: str) -> bool:
        with contextlib.suppress(MissingObject), translated():
            self._client.head_object(**self._object(key))
            return True
        with translated(missing=StorageFailed):  # to HEAD, a bucket that is not there looks the same
            self._client.head_bucket(Bucket=self.bucket)
        return False

    def keys(self, owner: object = None, collections: str = "") -> AsyncIterator[tuple[str, Facts]]:
        return self._threads.pages(self._keys(None if owner is None else name_of(owner), collections))

    def _keys(self, only: str | None, collections: str) -> Iterator[tuple[str, Facts]]:
        """List folder by folder. SeaweedFS lists `a/1` before `a-b/1`: only within a folder is the order the same on
        all servers. The names of the collections of one owner are held in memory, those of files are not."""
        with translated(missing=StorageFailed):
            for owner in self._folders(self.prefix) if only is None else [f"{self.prefix}{only}/"]:
                for collection in self._folders(f"{owner}{collections}"):
                    for entry in self._listed("list_objects_v2", "Contents", Prefix=collection):
                        key = entry["Key"].removeprefix(self.prefix)
                        if SHAPE.fullmatch(key):
                            yield key, {"at": entry["LastModified"].astimezone(UTC), "size": entry["Size"]}

    def _folders(self, prefix: str) -> list[str]:
        found = self._listed("list_objects_v2", "CommonPrefixes", Prefix=prefix, Delimiter="/")
        return sorted(entry["Prefix"] for entry in found)

    def _listed(self, operation: str, what: str, **options: Any) -> Iterator[Any]:
        for page in self._client.get_paginator(operation).paginate(Bucket=self.bucket, **options):
            yield from page.get(what, ())

    async def sweep(self, older: float = DAY) -> int:
        """Abort multipart uploads that never ended: they are invisible, but cost money."""
        return await self._threads.run(self._sweep, datetime.now(UTC) - timedelta(seconds=older))

    def _sweep(self, before: datetime) -> int:
        swept = 0
        with translated(missing=StorageFailed):
            for upload in list(self._listed("list_multipart_uploads", "Uploads", Prefix=self.prefix)):
                ours = SHAPE.fullmatch(upload["Key"].removeprefix(self.prefix))
                if ours and upload["Initiated"] < before:
                    self._client.abort_multipart_upload(
                        Bucket=self.bucket, Key=upload["Key"], UploadId=upload["UploadId"]
                    )
                    swept += 1
        return swept

    async def close(self) -> None:
        self._threads.close()
        self._client.close()


class S3Incoming(FileIncoming):
    def __init__(
        self, file: Any, threads: StorageThreads, most: int | None, upload: Callable[[Any, str], None]
    ) -> None:
        super().__init__(file, threads, most)
        self._upload = upload

    def append(self, chunk: bytes) -> None:
        with on_disk(missing=StorageFailed):
            self.file.write(chunk)

    def place(self, key: str) -> None:
        self.file.seek(0)
        self._upload(self.file, key)
