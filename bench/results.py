"""Results, compared with their goals."""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

LATEST = Path(__file__).parent / "results" / "latest.json"
LONGER = LATEST.with_name("more.json")
"""Measurements that take longer and run less often."""


@dataclass
class Result:
    """One figure. Without a goal, it is only reported."""

    measure: str
    reached: float
    goal: float | None = None
    at_most: bool = False
    unit: str = "ratio"

    @property
    def met(self) -> bool | None:
        if self.goal is None:
            return None
        return self.reached <= self.goal if self.at_most else self.reached >= self.goal

    def as_dict(self) -> dict[str, Any]:
        return {
            "measure": self.measure,
            "goal": self.goal,
            "reached": round(self.reached, 3),
            "met": self.met,
            "unit": self.unit,
            "wanted": None if self.goal is None else "at most" if self.at_most else "at least",
        }


@dataclass
class Rates:
    """Figures of several rounds, by peer."""

    found: dict[str, list[float]] = field(default_factory=dict)

    def add(self, name: str, value: float) -> None:
        self.found.setdefault(name, []).append(value)

    def median(self, name: str) -> float:
        return statistics.median(self.found[name])

    def ratio(self, one: str, other: str) -> float:
        """Return the median of the ratios per round: a slow minute of the machine affects both parts of a ratio."""
        return statistics.median(a / b for a, b in zip(self.found[one], self.found[other], strict=True))

    def summary(self) -> dict[str, dict[str, Any]]:
        return {
            name: {"median": round(statistics.median(values), 4), "rounds": [round(value, 4) for value in values]}
            for name, values in self.found.items()
        }


@dataclass
class Account:
    """All results of a run, and the figures behind them."""

    results: list[Result] = field(default_factory=list)
    raw: dict[str, Any] = field(default_factory=dict)

    def add(self, results: Sequence[Result], **raw: Any) -> None:
        self.results += results
        self.raw.update(raw)

    def write(self, about: Mapping[str, Any], path: Path = LATEST) -> None:
        path.parent.mkdir(exist_ok=True)
        found = {"results": [result.as_dict() for result in self.results], "about": dict(about), "raw": self.raw}
        path.write_text(json.dumps(found, indent=1, default=asdict) + "\n")

    def put_into(self, path: Path) -> None:
        """Replace earlier figures of the same measurements."""
        found = json.loads(path.read_text())
        new = {result.measure: result.as_dict() for result in self.results}
        found["results"] = [new.pop(result["measure"], result) for result in found["results"]] + list(new.values())
        found["raw"].update(self.raw)
        path.write_text(json.dumps(found, indent=1, default=asdict) + "\n")


def table(results: Sequence[Result]) -> str:
    """Return the results as a table."""
    lines = []
    for result in results:
        goal = "" if result.goal is None else f"{'≤' if result.at_most else '≥'} {result.goal:g}"
        mark = {True: "met", False: "NOT MET", None: ""}[result.met]
        lines.append(f"{result.measure:<66} {goal:>9} {result.reached:>12,.2f} {result.unit:<8} {mark}")
    return "\n".join(lines)
