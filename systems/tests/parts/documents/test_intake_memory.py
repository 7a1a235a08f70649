"""The bench of document intake, in short: every sort of file has the outcome that it should have, within its memory."""

import json
import subprocess
import sys

import pytest

ALLOWED = {
    "text": {"read"},
    "table": {"read"},
    "scanned": {"read"},
    "broken": {"read", "corrupt"},
    "truncated": {"read", "corrupt"},
    "encrypted": {"encrypted"},
    "bomb": {"too_large"},
}
"""What is broken may still be readable, or say that it has a password; it is never a reason to try again."""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_hostile_documents_have_their_outcomes_within_the_memory_of_a_worker() -> None:
    command = [sys.executable, "-m", "bench.intake_memory", "--documents", "8", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["outcomes"].keys() == ALLOWED.keys()
    assert [
        (sort, code) for sort, codes in found["outcomes"].items() for code in codes if code not in ALLOWED[sort]
    ] == []
    assert found["worker_ended_with"] == 0
    assert 0 < found["together_mb"] < 600
