"""An S3 server on loopback: SeaweedFS, with one identity, and data in a folder that outlives it."""

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import boto3  # type: ignore[import-untyped]
from botocore.config import Config  # type: ignore[import-untyped]
from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

from tests.support.nats import free_port

ACCESS_KEY, SECRET_KEY = "tester", "a-secret-for-tests"
BUCKET = "files"
SECONDS = 60.0
PORTS = ("master", "volume", "filer", "s3")
"""Two ports for each service: HTTP and gRPC."""


class SeaweedServer:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ports = {name: (free_port(), free_port()) for name in PORTS}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def port(self) -> int:
        return self._ports["s3"][0]

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Start the server. Returns when its bucket accepts objects."""
        identity = {"name": "tester", "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}]}
        rights = {"actions": ["Admin", "Read", "Write", "List"]}
        config = self.folder / "identities.json"
        config.write_text(json.dumps({"identities": [identity | rights]}))
        options: dict[str, object] = {
            "dir": self.folder, "ip": "127.0.0.1", "ip.bind": "127.0.0.1", "s3": "true", "s3.config": config,
            "s3.allowDeleteBucketNotEmpty": "false", "s3.autoCreateBucket": "false",
            "s3.port.iceberg": 0, "s3.port.lance": 0, "s3.localSocket": self.folder / "s3.sock",
            "filer.localSocket": self.folder / "filer.sock", "master.telemetry": "false",
            "master.electionTimeout": "1s", "master.volumeSizeLimitMB": 128, "volume.max": 20,
        }  # fmt: skip
        for name, (http, grpc) in self._ports.items():
            options |= {f"{name}.port": http, f"{name}.port.grpc": grpc}
        self._launch(options)
        self._until_it_stores()
        return self

    def _launch(self, options: Mapping[str, object]) -> None:
        program = Path(sys.executable).with_name("weed")
        command = [str(program), "server", *(f"-{name}={value}" for name, value in options.items())]
        with (self.folder / "weed.log").open("ab") as log:
            self._process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log)

    def _until_it_stores(self) -> None:
        assert self._process is not None
        client, deadline = self.client(), time.monotonic() + SECONDS
        while True:
            try:
                if BUCKET not in [bucket["Name"] for bucket in client.list_buckets()["Buckets"]]:
                    client.create_bucket(Bucket=BUCKET)
                client.put_object(Bucket=BUCKET, Key="ready", Body=b"yes")
                client.close()
                return
            except (BotoCoreError, ClientError):
                assert self._process.poll() is None, (self.folder / "weed.log").read_text()[-4000:]
                assert time.monotonic() < deadline, "the S3 server does not start"
                time.sleep(0.05)

    def client(self, **options: Any) -> Any:
        """A client for tests, to inspect the storage and to change it like others might."""
        given = {"aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY, "region_name": "us-east-1"}
        config = Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}, signature_version="s3v4")
        return boto3.session.Session().client("s3", endpoint_url=self.endpoint, config=config, **(given | options))

    def kill(self) -> None:
        """Kill the server, like a machine that loses power. A graceful stop takes half a minute."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        for name, (_, grpc) in self._ports.items():  # it is asked where to put the other sockets, but not these
            Path(f"/tmp/seaweedfs-{name}-grpc-{grpc}.sock").unlink(missing_ok=True)
