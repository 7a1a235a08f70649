"""What the demo shows."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from rowmill.demo import proof, view
from rowmill.demo.crew import Member
from rowmill.demo.ledger import LedgerReader

STATES = {"done": 1200, "dead": 3, "running": 40, "ready": 757}


class Process:
    """As much of a process as a view looks at."""

    def __init__(self, pid: int, code: int | None) -> None:
        self.pid = pid
        self.returncode = code


def member(place: int, *, worker: int = 1, code: int | None = None, frozen: bool = False) -> Member:
    process: Any = Process(4000 + place, code)
    ledger = LedgerReader(Path("nowhere"))
    ledger.worker = worker
    return Member(place, process, ledger, Path("nowhere"), frozen)


@pytest.fixture
def said() -> Iterator[io.StringIO]:
    with io.StringIO() as file:
        yield file


def test_on_a_terminal_it_shows_states_workers_and_events(said: io.StringIO) -> None:
    console = Console(file=said, force_terminal=True, width=120, color_system=None)
    shown = view.view_for(console, 2000)
    shown.say("worker 3 killed (SIGKILL)")
    shown.show(STATES, [member(1), member(2, frozen=True), member(3, code=-9), member(4, worker=0)])
    shown.close()
    text = said.getvalue()

    assert "1,200" in text
    for place, condition in ((1, "working"), (2, "frozen"), (3, "dead"), (4, "starting")):
        line = next(line for line in text.splitlines() if f"worker {place}  process {4000 + place}" in line)
        assert condition in line
    assert "worker 3 killed (SIGKILL)" in text


def test_elsewhere_it_writes_plain_lines(said: io.StringIO) -> None:
    shown = view.view_for(Console(file=said, width=40), 2000)
    shown.show(STATES, [])
    shown.say("worker 3 killed (SIGKILL), " + "and more " * 10)
    shown.close()
    progress, event = said.getvalue().splitlines()

    assert "1,200 done, 3 dead, 40 running, 0 waiting, 757 ready" in progress
    assert event.startswith("[")
    assert "worker 3 killed (SIGKILL)" in event
    assert "\x1b" not in said.getvalue()


def result(*holds: bool) -> proof.Result:
    numbers: dict[str, Any] = dict.fromkeys(proof.ProofTally.__dataclass_fields__, 0)
    return proof.Result(
        tally=proof.ProofTally(**numbers),
        checks=[proof.Check(f"claim {n}", holds, "0 = 0") for n, holds in enumerate(holds)],
        trouble=proof.Trouble(1, 1, 1),
        store="sqlite",
        seconds=1.0,
        kept=Path("/kept"),
    )


def test_the_proof_is_a_list_of_claims_with_their_numbers() -> None:
    good, bad = view.summary(result(True, True)).plain, view.summary(result(True, False)).plain

    assert "✓ claim 1: 0 = 0" in good
    assert good.endswith("It holds.")
    assert "✗ claim 1: 0 = 0" in bad
    assert bad.endswith("It does not hold.")
    assert "Kept in /kept" in good
