"""What integrations share: counts of what was done, as a scheduler shows them."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass

from rowmill.reconcile.report import Reconciled
from rowmill.worker.report import Report

REPORTED = ("claimed", "done", "again", "dead", "cancelled", "held", "lost", "refused", "rescued", "seconds")
"""What is shown of a worker's report."""

Counts = dict[str, int | float]


def counts_of(report: Report) -> Counts:
    """Return the counts of a drain."""
    return {name: getattr(report, name) for name in REPORTED}


def counts_of_run(report: Reconciled) -> Counts:
    """Return the counts of a reconciliation, its findings also by their kind."""
    return {
        "findings": report.drift,
        **{f"findings.{kind}": count for kind, count in report.counts.items()},
        "new": report.new,
        "corrected": report.corrected,
        "planned": report.planned,
        "failed": report.failed,
        "remaining": report.remaining,
        "closed": report.closed,
        "in_flight": report.in_flight,
        "inconclusive": report.inconclusive,
        "unreadable": len(report.unreadable),
    }


def numbers_in(result: object) -> Counts:
    """Return the numbers of a mapping or a dataclass, those of mappings in it by `outer.inner`. Texts are left out:
    they may come from rows."""
    if is_dataclass(result):
        result = {field.name: getattr(result, field.name) for field in fields(result)}
    if isinstance(result, (int, float)):
        return {"rows": result}
    found: Counts = {}
    for name, value in result.items() if isinstance(result, Mapping) else ():
        if isinstance(value, Mapping):
            found |= {f"{name}.{inner}": number for inner, number in numbers_in(value).items()}
        elif isinstance(value, (int, float)):
            found[str(name)] = value
    return found


def in_words(counts: Counts) -> str:
    """Return counts as a log line: claimed 12, done 10. Those at zero are left out."""
    return ", ".join(f"{name} {number:,.6g}" for name, number in counts.items() if number) or "nothing"
