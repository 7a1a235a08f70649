"""Intake as installed from the wheel: it serves its pages, takes a file in, reads it, and says what it found."""

import json
import sys
import time
import urllib.request
from typing import Any

from served import check_assets, check_served, get

FILES = "/organizations/1/projects/1/files"
FORM = (
    b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\nContent-Type: text/plain\r\n\r\n'
    b"Invoice number: 4711\nInvoice date: 2026-03-31\n\r\n--b--\r\n"
)
SECONDS = 60.0


def check(url: str) -> None:
    for path in ("/", "/review/1/1"):
        assert get(url + path)[0] == "text/html", path
        check_assets(url + path)
    assert "paths" in json.loads(get(url + "/openapi.json")[1])
    assert json.loads(get(url + "/catalogue")[1])
    sent = urllib.request.Request(url + FILES, FORM, {"content-type": "multipart/form-data; boundary=b"})
    with urllib.request.urlopen(sent, timeout=30) as answer:
        place = answer.headers["location"]
    deadline = time.monotonic() + SECONDS
    file: dict[str, Any] = {}
    while file.get("processing_status") not in ("completed", "failed"):
        assert time.monotonic() < deadline, file
        time.sleep(0.2)
        file = json.loads(get(url + place)[1])
    found = {one["field_key"]: one["value"] for one in file["suggestions"]}
    assert found.get("invoice_number") == "4711", file
    assert "4711" in get(f"{url}/review/1/1/files/{file['id']}")[1].decode()


def main(command: str) -> None:
    check_served(command, "intake", check)
    print("intake serves from the wheel, and reads")


if __name__ == "__main__":
    main(sys.argv[1])
