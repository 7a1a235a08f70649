"""How often names are linked to the right things: `python -m tools.entities_quality [--json] [--write] [--wrong]`.

The mentions of systems/tests/entities/quality/known.jsonl are linked to the knowledge base that ships. `--write` puts
the tables into docs/systems/entities-quality.md; `--wrong` lists what went wrong in the tuned half.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from rowmill_systems.entities.kb.base import open_knowledge_base
from rowmill_systems.entities.linking.choose import Scored, decide, rank
from rowmill_systems.entities.linking.types import type_of
from rowmill_systems.entities.settings import EntitiesSettings
from rowmill_systems.entities.sources.embedded import EmbeddedSource
from rowmill_systems.entities.things import Candidate, Mention

HOME = Path(__file__).parents[1]
KNOWN = HOME / "systems" / "tests" / "entities" / "quality" / "known.jsonl"
PAGE = HOME / "docs" / "systems" / "entities-quality.md"
BEGIN, END = "<!-- results: written by tools.entities_quality -->\n", "<!-- end of results -->"
HALVES = ("tuned", "held out")
STEPS = (0.0, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.01)
THRESHOLDS = (0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)


@dataclass(frozen=True, slots=True)
class Case:
    """A mention, and the id of its thing; None if it is not in the knowledge base."""

    mention: Mention
    answer: str | None
    kind: str
    half: str
    type: str


@dataclass(frozen=True, slots=True)
class Verdict:
    case: Case
    ranked: Sequence[Scored]
    absent: Sequence[Scored]
    """The same, without the right answer in the knowledge base."""

    def linked(self, threshold: float, gap: float) -> str | None:
        """Return the id of the chosen thing."""
        chosen = decide(self.ranked, threshold=threshold, gap=gap)
        return chosen.candidates[0].id if chosen else None

    @property
    def confidence(self) -> float:
        return self.ranked[0].score


def cases(path: Path = KNOWN) -> list[Case]:
    return [_case(json.loads(line)) for line in path.read_text("utf-8").splitlines() if line.strip()]


def _case(given: Mapping[str, Any]) -> Case:
    type = type_of(given.get("type"))
    mention = Mention(given["name"], type, given.get("context") or "", given.get("known") or {})
    return Case(mention, given["answer"], given["kind"], HALVES[given["held_out"]], type or "unknown")


async def verdicts(known: Iterable[Case]) -> list[Verdict]:
    source = EmbeddedSource(open_knowledge_base())
    return [_verdict(case, await source.candidates(case.mention)) for case in known]


def _verdict(case: Case, candidates: Sequence[Candidate]) -> Verdict:
    others = [each for each in candidates if each.id != case.answer]
    return Verdict(case, rank(case.mention, candidates), rank(case.mention, others))


def counted(found: Sequence[Verdict], threshold: float, gap: float) -> dict[str, Any]:
    """Return `precision`: right links among all links; and `recall`: right links among the mentions with an answer."""
    chosen = [(verdict.linked(threshold, gap), verdict.case.answer) for verdict in found]
    right = sum(link is not None and link == answer for link, answer in chosen)
    links, answers = sum(link is not None for link, _ in chosen), sum(answer is not None for _, answer in chosen)
    return {
        "mentions": len(chosen),
        "with an answer": answers,
        "right": right,
        "wrong": links - right,
        "precision": right / links if links else None,
        "recall": right / answers if answers else None,
    }


def guessed(found: Sequence[Verdict], threshold: float, gap: float) -> dict[str, int]:
    """Return mentions that would be linked to something else if their answer were not in the knowledge base."""
    absent = [each.absent for each in found if each.case.answer is not None]
    linked = sum(decide(ranked, threshold=threshold, gap=gap) is not None for ranked in absent)
    return {"mentions": len(absent), "linked": linked}


def calibration(found: Sequence[Verdict], threshold: float, gap: float) -> dict[str, dict[str, Any]]:
    """Return the number of links, and of right ones, by confidence."""
    table = {}
    linked = [(each, link) for each in found if (link := each.linked(threshold, gap)) is not None]
    for low, high in pairwise(STEPS):
        if inside := [(each, link) for each, link in linked if low <= each.confidence < high]:
            table[f"{low:.2f} to {min(high, 1.0):.2f}"] = {
                "links": len(inside),
                "said": sum(each.confidence for each, _ in inside) / len(inside),
                "right": sum(link == each.case.answer for each, link in inside) / len(inside),
            }
    return table


def measured(found: Sequence[Verdict], settings: EntitiesSettings) -> dict[str, Any]:
    threshold, gap = settings.link_threshold, settings.link_gap

    def grouped(key: Callable[[Case], str]) -> dict[str, dict[str, Any]]:
        names = sorted({key(each.case) for each in found})
        return {name: counted([each for each in found if key(each.case) == name], threshold, gap) for name in names}

    return {
        "threshold": threshold,
        "gap": gap,
        "all": {"all": counted(found, threshold, gap)} | grouped(lambda case: case.half),
        "kinds": grouped(lambda case: case.kind),
        "types": grouped(lambda case: case.type),
        "thresholds": {f"{each:.2f}": counted(found, each, gap) for each in THRESHOLDS},
        "calibration": calibration(found, threshold, gap),
        "guessed": guessed(found, threshold, gap),
    }


def row(*cells: object) -> str:
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def share(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def table(title: str, rows: Mapping[str, dict[str, Any]]) -> str:
    names = ("mentions", "with an answer", "right", "wrong")
    lines = [row(title, *names, "precision", "recall"), row(*["---"] * 7)]
    for name, counts in rows.items():
        numbers = (counts[each] for each in names)
        lines.append(row(name, *numbers, share(counts["precision"]), share(counts["recall"])))
    return "\n".join(lines)


def calibration_table(bins: Mapping[str, dict[str, Any]]) -> str:
    lines = [row("confidence", "links", "said", "right"), row(*["---"] * 4)]
    lines += [row(name, each["links"], f"{each['said']:.2f}", f"{each['right']:.2f}") for name, each in bins.items()]
    return "\n".join(lines)


def written(account: dict[str, Any]) -> str:
    guesses = account["guessed"]
    parts = [
        f"With the threshold {account['threshold']} and the gap {account['gap']}, which are the defaults:",
        table("", account["all"]),
        table("kind of mention", account["kinds"]),
        table("type", account["types"]),
        "With other thresholds, and the same gap:",
        table("threshold", account["thresholds"]),
        "How honest the confidence is:",
        calibration_table(account["calibration"]),
        f"If what is meant were not in the knowledge base, {guesses['linked']} of the {guesses['mentions']} mentions "
        "with an answer would be linked to a namesake.",
    ]
    return "\n\n".join(parts)


def wrong(found: Sequence[Verdict], settings: EntitiesSettings) -> list[str]:
    """Yield wrong links of the tuned half only: looking at the other half would tune on it."""
    lines = []
    for each in found:
        link, case = each.linked(settings.link_threshold, settings.link_gap), each.case
        if case.half == HALVES[0] and link != case.answer:
            first = [f"{thing.candidates[0].id} {thing.score:.3f} {thing.parts}" for thing in each.ranked[:3]]
            lines.append("\n    ".join([f"{case.kind}: {case.mention} is {case.answer}, not {link}", *first]))
    return lines


def main(arguments: Sequence[str]) -> int:
    if unknown := set(arguments) - {"--json", "--write", "--wrong"}:
        print(f"unknown: {', '.join(sorted(unknown))}\n\n{__doc__}", file=sys.stderr)
        return 2
    settings, found = EntitiesSettings(), asyncio.run(verdicts(cases()))
    account = measured(found, settings)
    print(json.dumps(account, indent=2) if "--json" in arguments else written(account))
    if "--wrong" in arguments:
        print("\n".join(wrong(found, settings)))
    if "--write" in arguments:
        before, rest = PAGE.read_text("utf-8").split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{written(account)}\n\n{END}{rest.split(END)[1]}", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
