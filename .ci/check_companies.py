"""Companies from the wheel: its server answers, and names of a file get ids. `python check_companies.py ROWMILL`."""

import csv
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

from served import check_assets, check_served, get

COMPANIES = "company_id,name\n1,Siemens AG\n2,北京华兴科技有限公司\n"
NAMES = "customer\nSIEMENS AG\n北京華興科技有限公司\nNobody Ltd\n-\n"


def check(url: str) -> None:
    for path in ("/", "/requests", "/review", "/conflicts"):
        assert get(url + path)[0] == "text/html", path
        check_assets(url + path)
    sent = urllib.request.Request(
        url + "/resolve", json.dumps({"rows": [{"name": "Acme Ltd"}]}).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(sent) as answer:
        [row] = json.load(answer)["rows"]
    assert row["temporary"], row
    assert row["company_id"].startswith("IN_"), row


def check_file(command: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "companies.csv").write_text(COMPANIES, "utf-8")
        ran = subprocess.run(
            [command, "systems", "companies", "resolve", "-", "-c", "customer", "--companies-file", "companies.csv"],
            input=NAMES.encode(), capture_output=True, cwd=folder, timeout=120,
            env={**os.environ, "WDH_DATABASE_URL": f"sqlite:///{folder / 'c.db'}"},
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr.decode()
        rows = list(csv.DictReader(ran.stdout.decode("utf-8-sig").splitlines()))
    ids = [row["company_id"] for row in rows]
    assert (ids[0], ids[1], ids[2][:3], ids[3]) == ("1", "2", "IN_", ""), ids


if __name__ == "__main__":
    command = sys.argv[1]
    check_served(command, "companies", check)
    check_file(command)
    print("companies serve from the wheel, and names get ids")
