"""Write resolutions as CSV."""

import csv
from datetime import UTC, datetime
from pathlib import Path

from rowmill.systems.commands import UsageError
from rowmill_systems.companies.companies import Companies
from rowmill_systems.companies.write_back import export_resolutions
from rowmill_systems.parts.sheets.target import check_target, written
from rowmill_systems.parts.values import harmless

COLUMNS = ("raw_name", "temp_id", "company_id", "resolved_by", "confidence", "resolved_at")


def export_file(companies: Companies, out: Path | None, since: str | None) -> None:
    """Write what was resolved since then, the oldest first."""
    moment = _moment(since)
    if out is not None:
        check_target(out, None)
    with companies.engine.connect() as connection, written(out, mark=False) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for each in export_resolutions(connection, since=moment):
            at = "" if each.resolved_at is None else each.resolved_at.isoformat()
            sure = "" if each.confidence is None else f"{each.confidence:.4f}"
            cells = (each.raw_name, each.temp_id or "", each.company_id, each.resolved_by or "", sure, at)
            writer.writerow([harmless(cell) for cell in cells])


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"--since {text} is no time. Write it like 2026-01-31 or 2026-01-31T12:00:00+08:00") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
