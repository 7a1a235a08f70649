"""`rowmill systems companies rotate-salt` and `renormalize`: rewrite ids and normal forms of all requests."""

from dataclasses import asdict
from typing import Any

import rowmill as rm
from rowmill.systems.commands import progress
from rowmill_systems.companies.companies import Companies
from rowmill_systems.companies.renormalizing import renormalize
from rowmill_systems.companies.rotation import plan_rotation, rotate_salt

KEEP = (
    "Keep WDH_TEMP_ID_SALT_PREVIOUS until every process has the new salt and a pass finds 0 rows: a pipeline may still "
    "have ids of the old one"
)
GO = "If every process has the new salt, WDH_TEMP_ID_SALT_PREVIOUS can go"


def rotate(companies: Companies, *, execute: bool) -> tuple[dict[str, Any], str]:
    """Rewrite temporary ids, or say what would be done. Return the counts, and a text for people."""
    if not execute:
        plan = plan_rotation(companies.engine, companies.salts)
        where = ", ".join(plan.targets) or "no target"
        goes_on = " It goes on with a rotation that was interrupted." if plan.interrupted else ""
        text = (
            f"plan: {plan.requests:,} requests get a new temporary id, and so do their rows in {where}.{goes_on} "
            f"Nothing was changed\n{KEEP}\nto do it: rowmill systems companies rotate-salt --execute"
        )
        return {"plan_only": True} | asdict(plan), text
    with progress("Rewriting ids") as seen:
        report = rotate_salt(
            companies.engine, companies.salts, companies.log, progress=lambda done: seen(done.requests)
        )
    if report.failed:
        raise rm.RowmillError(f"targets that could not be written: {', '.join(report.failed)}. Rotate again")
    done = f"{report.requests:,} requests and {report.rows:,} rows of targets were rewritten"
    return asdict(report), f"{done}. {KEEP if report.rows else GO}"


def make_forms_anew(companies: Companies, *, execute: bool) -> tuple[dict[str, Any], str]:
    """Make normal forms anew, or say what would be done. Return the counts, and a text for people."""
    with progress("Normalising names") as seen:
        report = renormalize(companies, plan_only=not execute, progress=lambda done: seen(done.requests))
    found = {"plan_only": not execute} | asdict(report)
    del found["last_id"]
    what = f"{report.requests:,} requests with another normal form, {report.merged:,} of them merged with an open one"
    if not execute:
        text = f"plan: {what}. Nothing was changed\nto do it: rowmill systems companies renormalize --execute"
        return found, text
    busy = f". {report.busy:,} could not be changed, being looked up now: run it again" if report.busy else ""
    return found, f"{what}; {report.rows:,} rows of targets written{busy}"
