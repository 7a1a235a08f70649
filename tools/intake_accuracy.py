"""How much of what papers say the rules find: `python -m tools.intake_accuracy [--scans] [--json] [--write]`.

Seed 1 is the part that the rules were tuned on, seed 2 the part that they were not. `--scans` reads scans too, some
seconds each, `--ocr=rapidocr` by that engine. `--write` puts the tables into docs/systems/intake-accuracy.md.
"""

import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

from demos.papers import Paper, make_papers
from demos.papers.judging import Outcome, Verdict, judge
from demos.papers.make import SCANS
from rowmill_systems.intake.fields.loading import load_catalogue
from rowmill_systems.intake.fields.rules import map_by_rules
from rowmill_systems.parts.documents.limits import DocumentLimits
from rowmill_systems.parts.documents.ocr.choose import OcrName, choose
from rowmill_systems.parts.documents.ocr.engine import Ocr
from rowmill_systems.parts.documents.read import read_document

PAGE = Path(__file__).parents[1] / "docs" / "systems" / "intake-accuracy.md"
PART = re.compile(r"(<!-- results: written by tools.intake_accuracy -->\n).*?(<!-- end of results -->)", re.DOTALL)
PARTS = {1: "tuned", 2: "held out"}
GROUPS: dict[str, Callable[[Verdict], str]] = {
    "document": lambda verdict: verdict.paper.doc_type,
    "type of field": lambda verdict: verdict.type,
    "kind of file": lambda verdict: verdict.paper.kind,
    "language": lambda verdict: verdict.paper.language,
    "layout": lambda verdict: verdict.paper.layout,
    "wording": lambda verdict: "held out" if verdict.field in verdict.paper.unseen else "as in the tuned part",
}
STEPS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.01)


def verdicts(papers: Iterable[Paper], ocr: Ocr | None) -> list[Verdict]:
    """Read and map each paper, and judge the suggestions."""
    catalogue, found = load_catalogue(), list[Verdict]()
    for paper in papers:
        file_bytes, name = paper.path.read_bytes(), paper.path.name
        document = read_document(
            file_bytes, filename=name, media_type=None, limits=DocumentLimits(), ocr=ocr, progress=_silent
        )
        mapped = map_by_rules(document, doc_type=paper.doc_type, catalogue=catalogue)
        found += judge(paper, mapped.suggestions, catalogue)
    return found


def _silent(page: int, pages: int) -> None:
    pass


def counted(found: Iterable[Verdict]) -> dict[str, Any]:
    """Return `share`: the part of the papers' values that was found correctly."""
    counts = Counter(verdict.outcome for verdict in found)
    wanted = counts[Outcome.RIGHT] + counts[Outcome.WRONG] + counts[Outcome.MISSED]
    return {**{outcome.value: counts[outcome] for outcome in Outcome}, "share": counts[Outcome.RIGHT] / max(1, wanted)}


def grouped(found: Sequence[Verdict], key: Callable[[Verdict], str]) -> dict[str, dict[str, Any]]:
    names = sorted({key(verdict) for verdict in found})
    return {name: counted(verdict for verdict in found if key(verdict) == name) for name in names}


def calibration(found: Sequence[Verdict]) -> dict[str, dict[str, Any]]:
    """Return the number of suggestions, and of right ones, by confidence."""
    table = {}
    for low, high in pairwise(STEPS):
        inside = [each for each in found if each.confidence is not None and low <= each.confidence < high]
        if inside:
            right = sum(each.outcome is Outcome.RIGHT for each in inside)
            table[f"{low:.2f} to {min(high, 1.0):.2f}"] = {
                "suggestions": len(inside),
                "said": sum(each.confidence or 0 for each in inside) / len(inside),
                "right": right / len(inside),
            }
    return table


def measured(*, scans: bool, engine: OcrName = "auto") -> dict[str, Any]:
    """Return all tables, by part and by how clean the papers are."""
    ocr = choose(engine) if scans else None
    results: dict[str, Any] = {}
    for seed, name in PARTS.items():
        with tempfile.TemporaryDirectory() as folder:
            papers = make_papers(Path(folder), seed, scans=SCANS if scans else 0)
            found = verdicts(papers, ocr)
        for scan in (False, True) if scans else (False,):
            of_these = [verdict for verdict in found if verdict.paper.scan is scan]
            results[f"{'scans' if scan else 'clean'}, {name}"] = {
                "papers": sum(paper.scan is scan for paper in papers),
                "all": counted(of_these),
                "groups": {group: grouped(of_these, key) for group, key in GROUPS.items()},
                "calibration": calibration(of_these),
            }
    return {"ocr": ocr.name if ocr else None, "results": results}


def row(*cells: object) -> str:
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def counts_row(name: str, counts: dict[str, Any]) -> str:
    numbers = (counts[outcome.value] for outcome in Outcome)
    return row(name, *numbers, f"{100 * counts['share']:.1f} %")


def counts_table(title: str, rows: Mapping[str, dict[str, Any]]) -> str:
    head = [row(title, *(outcome.value for outcome in Outcome), "right, of all there are"), row(*["---"] * 6)]
    return "\n".join([*head, *(counts_row(name, counts) for name, counts in rows.items())])


def calibration_table(bins: Mapping[str, dict[str, Any]]) -> str:
    lines = [row("confidence", "suggestions", "said", "right"), row(*["---"] * 4)]
    for name, found in bins.items():
        lines.append(row(name, found["suggestions"], f"{found['said']:.2f}", f"{found['right']:.2f}"))
    return "\n".join(lines)


def written(account: dict[str, Any]) -> str:
    results = account["results"]
    parts = [counts_table("", {f"{name} ({each['papers']} papers)": each["all"] for name, each in results.items()})]
    if account["ocr"]:
        parts.append(f"Scans were read by {account['ocr']}.")
    for name, each in results.items():
        parts.append(f"### {name[0].upper()}{name[1:]}")
        parts += [counts_table(group, table) for group, table in each["groups"].items() if len(table) > 1]
        parts.append(calibration_table(each["calibration"]))
    return "\n\n".join(parts)


def main(arguments: Sequence[str]) -> int:
    engines: dict[str, OcrName] = {f"--ocr={name}": name for name in get_args(OcrName)}
    if unknown := set(arguments) - {"--scans", "--json", "--write", *engines}:
        print(f"unknown: {', '.join(sorted(unknown))}\n\n{__doc__}", file=sys.stderr)
        return 2
    account = measured(
        scans="--scans" in arguments, engine=next((engines[each] for each in arguments if each in engines), "auto")
    )
    print(json.dumps(account, indent=2) if "--json" in arguments else written(account))
    if "--write" in arguments:
        text = PAGE.read_text("utf-8")
        text = PART.sub(lambda found: f"{found.group(1)}\n{written(account)}\n\n{found.group(2)}", text)
        PAGE.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
