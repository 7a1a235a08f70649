"""Charts of the latest results, as SVG for the documentation.

python -m bench.charts
"""

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from bench.environments import ROOT
from bench.results import LATEST

FOLDER = ROOT / "docs" / "performance"
WIDTH, LABEL, BAR, GAP = 720, 150, 22, 8
OURS, LIMIT, OTHERS = "#1f6f54", "#9aa5a0", "#c9a66b"
FONT = 'font-family="sans-serif" font-size="13" fill="#333"'


def colour(name: str) -> str:
    return OURS if name.startswith("rowmill") else LIMIT if name.startswith(("raw", "COPY")) else OTHERS


def bars(title: str, values: Mapping[str, float], unit: str) -> str:
    """Return horizontal bars, longest first."""
    ordered = sorted(values.items(), key=lambda pair: -pair[1])
    longest = max(values.values())
    room = WIDTH - LABEL - 120
    height = 40 + len(ordered) * (BAR + GAP)
    parts = [f'<text x="0" y="18" {FONT} font-weight="bold">{escape(title)}</text>']
    for place, (name, value) in enumerate(ordered):
        top = 34 + place * (BAR + GAP)
        length = max(value / longest * room, 1)
        middle = top + BAR * 0.7
        parts += [
            f'<text x="{LABEL - 8}" y="{middle:.0f}" text-anchor="end" {FONT}>{escape(name)}</text>',
            f'<rect x="{LABEL}" y="{top}" width="{length:.0f}" height="{BAR}" fill="{colour(name)}"/>',
            f'<text x="{LABEL + length + 6:.0f}" y="{middle:.0f}" {FONT}>{value:,.3g} {escape(unit)}</text>'
            if value < 1000
            else f'<text x="{LABEL + length + 6:.0f}" y="{middle:.0f}" {FONT}>{value:,.0f} {escape(unit)}</text>',
        ]
    return framed(parts, height)


def lines(title: str, series: Mapping[str, Sequence[float]], step: float) -> str:
    """Return rates over time, each as a share of its first sample."""
    height, top, bottom = 300, 40, 260
    seconds = max(len(samples) for samples in series.values()) * step
    parts = [f'<text x="0" y="18" {FONT} font-weight="bold">{escape(title)}</text>']
    for share in (0.0, 0.5, 1.0):
        y = bottom - share / 1.2 * (bottom - top)
        parts.append(f'<line x1="50" x2="{WIDTH - 130}" y1="{y:.0f}" y2="{y:.0f}" stroke="#ddd"/>')
        parts.append(f'<text x="44" y="{y + 4:.0f}" text-anchor="end" {FONT}>{share:.0%}</text>')
    for name, samples in series.items():
        points = [
            (50 + (n + 1) * step / seconds * (WIDTH - 180), bottom - min(rate / samples[0], 1.2) / 1.2 * (bottom - top))
            for n, rate in enumerate(samples)
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour(name)}" stroke-width="2"/>')
        x, y = points[-1]
        parts.append(f'<text x="{x + 6:.0f}" y="{y + 4:.0f}" {FONT}>{escape(name)}</text>')
    parts.append(f'<text x="{WIDTH - 180}" y="285" text-anchor="end" {FONT}>{seconds:.0f} s</text>')
    return framed(parts, height)


def framed(parts: Sequence[str], height: int) -> str:
    inside = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">\n'
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>\n{inside}\n</svg>\n'
    )


def medians(raw: Mapping[str, Any]) -> dict[str, float]:
    return {name: figures["median"] for name, figures in raw.items()}


def draw(raw: Mapping[str, Any], folder: Path = FOLDER) -> list[str]:
    """Write the charts for these figures. Return their names."""
    folder.mkdir(exist_ok=True, parents=True)
    charts = {}
    for name, title in (
        ("drain_narrow", "Drain by one process, narrow table, rows a second"),
        ("drain_wide", "Drain by one process, wide table with results, rows a second"),
        ("drain_two", "Drain by two processes, narrow table, rows a second"),
        ("enqueue_bulk", "Enqueue in bulk, rows a second"),
        ("sqlite", "Drain on SQLite, rows a second"),
    ):
        if name in raw:
            charts[name] = bars(title, medians(raw[name]), "/s")
    if "latency_ms" in raw:
        p50 = {name: figures["p50"] for name, figures in raw["latency_ms"].items()}
        charts["latency"] = bars("From commit to handler on an idle worker, median", p50, "ms")
    if "pinned" in raw:
        charts["pinned"] = lines("A horizon pinned while rows arrive: rate, of its first sample", raw["pinned"], 5.0)
    for name, chart in charts.items():
        (folder / f"{name}.svg").write_text(chart)
    return list(charts)


if __name__ == "__main__":
    print("\n".join(draw(json.loads(LATEST.read_text())["raw"])))
