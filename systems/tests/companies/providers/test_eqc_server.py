"""The local EQC of the demo, as a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

import httpx2

from demos.companies.eqc_server import TOKEN
from rowmill_systems.companies.providers.eqc import EqcProvider
from systems.tests.companies.providers.conformance import code, ids

REPOSITORY = Path(__file__).parents[4]


def test_it_serves_misbehaves_and_counts(tmp_path: Path) -> None:
    path = tmp_path / "companies.csv"
    path.write_text("company_id,name,former_name\n7,Acme Ltd,Alpha Ltd\n", encoding="utf-8")
    command = [sys.executable, "-m", "demos.companies.eqc_server", "--companies", str(path)]
    process = subprocess.Popen([*command, "--plan", '{"next": ["500"]}'], stdout=subprocess.PIPE, cwd=REPOSITORY)
    try:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        provider = EqcProvider(url, TOKEN)
        first, second = provider.search(["Acme Ltd", "Acme Ltd"], lambda: None)
        assert (code(first), ids(second)) == ("server_error", ["7"])
        httpx2.post(f"{url}/control/plan", json={"always": "401"}).raise_for_status()
        assert code(provider.search(["Acme Ltd"], lambda: None)[0]) == "provider_off"
        provider.close()
        counts = httpx2.get(f"{url}/control/counts").json()
        assert (counts["requests"], counts["answered"], counts["answered_twice"]) == (3, 1, 0)
        assert counts["faults"] == {"500": 1, "401": 1}
        process.terminate()
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.communicate()
