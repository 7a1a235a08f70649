"""Report the runs: as a table, as JSON, and in docs/reliability.md."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from faults.scenario import Finding

ROOT = Path(__file__).parents[1]
LATEST = ROOT / "faults" / "results" / "latest.json"
PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- results: written by the lab -->", "<!-- end of results -->"
STORES = {"postgresql": "PostgreSQL", "sqlite": "SQLite"}


def as_dict(finding: Finding) -> dict[str, Any]:
    return {
        "scenario": finding.scenario,
        "store": finding.store,
        "seed": finding.seed,
        "dose": finding.dose,
        "rows": finding.rows,
        "lost": finding.lost,
        "applied_twice": finding.applied_twice,
        "stale_refused": finding.stale_refused,
        "seconds": finding.seconds,
        "measured": finding.measured,
        "passed": finding.passed,
        "not_run": finding.not_run,
        "violations": [*map(str, finding.violations[:20]), *finding.wrong],
    }


def commit() -> str:
    """Return the commit that was tested, with a plus if files were changed since."""
    name = _git("rev-parse", "--short", "HEAD") or "unknown"
    return f"{name}+" if _git("status", "--porcelain", "--untracked-files=no") else name


def _git(*arguments: str) -> str:
    try:
        ran = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return ran.stdout.strip() if ran.returncode == 0 else ""


def dose_text(dose: Mapping[str, float]) -> str:
    return ", ".join(f"{number:,} {name}" for name, number in dose.items()) or "none"


def table(findings: Sequence[dict[str, Any]]) -> str:
    lines = [
        "| what went wrong | store | dose | rows | lost | applied twice | stale refused | seconds | |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for found in findings:
        cells = [
            found["scenario"], STORES[found["store"]], dose_text(found["dose"] | found["measured"]),
            f"{found['rows']:,}", found["lost"], found["applied_twice"], f"{found['stale_refused']:,}",
            f"{found['seconds']:.0f}",
            "passed" if found["passed"] else f"not run: {found['not_run']}" if found["not_run"] else "**failed**",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def write(findings: Sequence[Finding], seed: int, *, update: bool = False) -> None:
    """Write the page and the JSON; with `update`, replace the findings of these scenarios and add new ones."""
    scenarios = [as_dict(finding) for finding in findings]
    if update:
        new = {(one["scenario"], one["store"]): one for one in scenarios}
        known = {(one["scenario"], one["store"]): one for one in json.loads(LATEST.read_text())["scenarios"]}
        scenarios = list((known | new).values())
    facts = {"commit": commit(), "seed": seed, "scenarios": scenarios}
    LATEST.parent.mkdir(exist_ok=True)
    LATEST.write_text(json.dumps(facts, indent=1) + "\n")
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    head = f"Commit `{facts['commit']}`, seed {seed}: {sum(found['rows'] for found in scenarios):,} rows."
    PAGE.write_text(f"{before}{BEGIN}\n\n{head}\n\n{table(scenarios)}\n\n{END}{after}")
