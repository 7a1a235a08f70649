"""`python -m systems.tests.companies.dying run|rotation POINT`: a process of companies that is killed at that point."""

import os
import signal
import sys
from typing import Any

from rowmill.testing import QUICK
from rowmill_systems.companies import processing, rotation
from rowmill_systems.companies.companies import Companies
from rowmill_systems.companies.service import CompanyEnrichmentService
from rowmill_systems.companies.settings import CompaniesSettings
from rowmill_systems.companies.write_back import write_back
from systems.tests.companies.fake_providers import ScriptedProvider

POINTS = ("claimed", "half looked up", "looked up", "about to commit", "committed")
ANSWERS = {"Acme": "C-1", "Bolt": "C-2", "Meyer": ["C-3", "C-4"]}


def die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dying_after(call: Any) -> Any:
    def called(*given: Any, **named: Any) -> None:
        call(*given, **named)
        die()

    return called


def run(point: str) -> None:
    provider = ScriptedProvider(ANSWERS)
    if point == "claimed":
        vars(processing)["known_answers"] = die
    elif point == "half looked up":
        provider.before_answer = lambda name: die() if len(provider.asked) == 2 else None
    elif point == "looked up":
        vars(processing)["record_answers"] = die
    elif point == "about to commit":
        vars(processing)["record_answers"] = dying_after(processing.record_answers)
    companies = Companies(CompaniesSettings(), providers=[provider])
    companies.mill.settings = QUICK
    if point == "committed":
        vars(processing)["_count"] = die
    CompanyEnrichmentService(companies).process_lookup_queue()


def rotate(point: str) -> None:
    companies = Companies(CompaniesSettings())
    progress = None
    if point == "begun":
        vars(rotation)["_rotate_batch"] = die
    elif point == "requests written":
        vars(rotation)["write_back"] = die
    elif point == "targets written":
        vars(rotation)["write_back"] = dying_after(write_back)
    elif point == "committed":
        progress = die
    rotation.rotate_salt(companies.engine, companies.salts, companies.log, batch=10, progress=progress)


if __name__ == "__main__":
    {"run": run, "rotation": rotate}[sys.argv[1]](sys.argv[2])
