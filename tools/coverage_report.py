"""Lines that the tests run, by package: `make coverage` measures, this prints.

Exits with 1 where the engine or a system has less than its goal.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path

from coverage import Coverage

ROOTS = ("src", "systems/src")
ENGINE, SYSTEM = 95.0, 90.0


def part_of(file: str) -> tuple[str, str]:
    """Return the distribution or system of a file, and its package."""
    top, *inner = next(Path(file).relative_to(root) for root in ROOTS if Path(file).is_relative_to(root)).parts
    if top == "rowmill_systems":
        return f"{top}.{inner[0].removesuffix('.py')}", ".".join(inner[1:-1][:1])
    return top, inner[0] if len(inner) > 1 else ""


def measured() -> dict[str, dict[str, tuple[int, int]]]:
    """Return (covered lines, lines) by part and package."""
    coverage = Coverage()
    coverage.load()
    target = Path(str(coverage.get_option("run:data_file"))).parent / "report.json"
    coverage.json_report(outfile=str(target))
    found: dict[str, dict[str, tuple[int, int]]] = defaultdict(dict)
    for file, told in json.loads(target.read_text())["files"].items():
        part, package = part_of(file)
        run, lines = found[part].get(package, (0, 0))
        summary = told["summary"]
        found[part][package] = run + summary["covered_lines"], lines + summary["num_statements"]
    return found


def main() -> int:
    low = 0
    for part, packages in sorted(measured().items()):
        run, lines = (sum(numbers) for numbers in zip(*packages.values(), strict=True))
        if not lines:
            continue
        goal = ENGINE if part == "rowmill" else SYSTEM
        share = 100 * run / lines
        low += share < goal
        print(f"{share:6.1f} %  {part} ({run} of {lines} lines; goal {goal:g} %)")
        for package, (its_run, its_lines) in sorted(packages.items()):
            if package and its_lines:
                print(f"{100 * its_run / its_lines:6.1f} %    {package}")
    return int(low > 0)


if __name__ == "__main__":
    sys.exit(main())
