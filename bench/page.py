"""The generated part of docs/performance.md: the latest results as tables.

python -m bench.page
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from bench.charts import draw
from bench.environments import ROOT
from bench.results import LATEST, LONGER

PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- results: written by the bench -->", "<!-- end of results -->"


def row(*cells: object) -> str:
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def goals(results: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = [row("measure", "goal", "reached", ""), row("---", "---", "---", "---")]
    for result in results:
        if result["goal"] is None:
            continue
        sign = "≤" if result["wanted"] == "at most" else "≥"
        unit = "" if result["unit"] == "ratio" else f" {result['unit']}"
        met = "met" if result["met"] else "**not met**"
        lines.append(row(result["measure"], f"{sign} {result['goal']:g}{unit}", f"{result['reached']:.2f}{unit}", met))
    return lines


def told(results: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = [row("without a goal", "reached"), row("---", "---")]
    for result in results:
        if result["goal"] is None:
            unit = "" if result["unit"] == "ratio" else f" {result['unit']}"
            lines.append(row(result["measure"], f"{result['reached']:,.2f}{unit}"))
    return lines


def figures(title: str, raw: Mapping[str, Any]) -> list[str]:
    lines = [row(title, "median", "rounds"), row("---", "---", "---")]
    for name, found in sorted(raw.items(), key=lambda pair: -pair[1]["median"]):
        rounds = ", ".join(f"{value:,.0f}" for value in found["rounds"])
        lines.append(row(name, f"{found['median']:,.0f}", rounds))
    return lines


def written(account: Mapping[str, Any]) -> str:
    """Return all tables of one result file."""
    about, raw, results = account["about"], account["raw"], account["results"]
    versions = ", ".join(f"{name} {version}" for name, version in (about["peers"] | about["drivers"]).items())
    parts = [
        f"{about['postgresql']}, Python {about['python']}, {about['cores']} cores; {versions}. "
        f"The run took {about['seconds'] / 60:.0f} minutes."
    ]
    if any(result["goal"] is not None for result in results):
        parts.append("\n".join(goals(results)))
    if any(result["goal"] is None for result in results):
        parts.append("\n".join(told(results)))
    for name, title in TITLES.items():
        if name in raw:
            parts.append("\n".join(figures(title, raw[name])))
    if "latency_ms" in raw:
        parts.append("\n".join(latencies(raw["latency_ms"])))
    if "footprint" in raw:
        parts.append("\n".join(footprints(raw["footprint"])))
    return "\n\n".join(parts)


TITLES = {
    "drain_narrow": "drain, one process, narrow table, rows/s",
    "drain_wide": "drain, one process, wide table, rows/s",
    "drain_two": "drain, two processes, narrow table, rows/s",
    "backlog": "rate of the first 8,000 jobs by backlog, rows/s",
    "enqueue_bulk": "enqueue in bulk, rows/s",
    "sqlite": "drain on SQLite, rows/s",
    "settling": "rows that write one row elsewhere in their own transaction, rows/s",
    "drain_sync": "drain, async and sync handlers, rows/s",
    "drain_shapes": "drain, one process, by shape of the queue, rows/s",
    "finished": "drain in a new table and beside finished rows, rows/s",
}


def latencies(raw: Mapping[str, Mapping[str, float]]) -> list[str]:
    lines = [row("latency, ms", "p50", "p99"), row("---", "---", "---")]
    for name, found in sorted(raw.items(), key=lambda pair: pair[1]["p50"]):
        lines.append(row(name, f"{found['p50']:.2f}", f"{found['p99']:.2f}"))
    return lines


def footprints(raw: Mapping[str, Mapping[str, float]]) -> list[str]:
    lines = [
        row(
            "one worker process", "start, s", "idle, MB", "idle, % of a core", "busy, MB", "busy, µs of processor a job"
        ),
        row(*["---"] * 6),
    ]
    for name, found in raw.items():
        idle = (f"{found['idle_mb']:.0f}", f"{found['idle_percent']:.1f}")
        lines.append(row(name, f"{found['start']:.2f}", *idle, f"{found['busy_mb']:.0f}", f"{found['busy_us']:.1f}"))
    return lines


def write_page() -> None:
    latest = json.loads(LATEST.read_text())
    draw(latest["raw"])
    parts = [written(latest)]
    if LONGER.exists():
        parts += ["### What takes longer", written(json.loads(LONGER.read_text()))]
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    tables = "\n\n".join(parts)
    PAGE.write_text(f"{before}{BEGIN}\n\n{tables}\n\n{END}{after}")


if __name__ == "__main__":
    write_page()
