"""`rowmill systems companies rotate-salt`."""

from dataclasses import asdict
from typing import Any

import rowmill as rm
from rowmill.systems.commands import progress
from rowmill_systems.companies.companies import Companies
from rowmill_systems.companies.rotation import rotate_salt


def rotate(companies: Companies, *, execute: bool) -> dict[str, Any]:
    """Rewrite temporary ids, or say that nothing is done without --execute."""
    if not execute:
        raise rm.errors.BadRequest(
            "rotate-salt rewrites ids: say --execute. It can be stopped and started again at any time"
        )
    with progress("Rewriting ids") as seen:
        report = rotate_salt(
            companies.engine, companies.salts, companies.log, progress=lambda done: seen(done.requests)
        )
    if report.failed:
        raise rm.RowmillError(f"targets that could not be written: {', '.join(report.failed)}. Rotate again")
    return asdict(report)
