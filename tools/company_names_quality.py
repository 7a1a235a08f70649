"""How often names are rightly said to be of one company: `python -m tools.company_names_quality [--write] [--wrong]`.

The pairs of systems/tests/parts/names/pairs.jsonl are compared. `--write` puts the tables into
docs/systems/companies-names.md; `--wrong` lists what went wrong in the tuned half, `--wrong --all` in both.
"""

import hashlib
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rapidfuzz import fuzz

from rowmill_systems.parts.names.companies import CompanyMatch, MatchVerdict, compare_companies
from rowmill_systems.parts.names.company_normal import company_parts
from rowmill_systems.parts.names.people import PersonMatch

HOME = Path(__file__).parents[1]
PAIRS = HOME / "systems" / "tests" / "parts" / "names" / "pairs.jsonl"
PAGE = HOME / "docs" / "systems" / "companies-names.md"
BEGIN, END = "<!-- results: written by tools.company_names_quality -->\n", "<!-- end of results -->"
TUNED, HELD_OUT = "tuned", "held out"
FAULT_FOUND = "fault found"


@dataclass(frozen=True, slots=True)
class NamePair:
    """Two names, and whether they are of one company, or of one person."""

    one: str
    other: str
    same: bool
    script: str
    kind: str

    @property
    def half(self) -> str:
        """The half of the pair, by a hash of its names: nobody chooses it. Pairs that found faults are tuned on."""
        if self.kind == FAULT_FOUND:
            return TUNED
        return HELD_OUT if hashlib.sha256(f"{self.one}\n{self.other}".encode()).digest()[0] % 2 else TUNED


@dataclass(frozen=True, slots=True)
class JudgedPair:
    pair: NamePair
    match: CompanyMatch | PersonMatch

    @property
    def said_same(self) -> bool:
        return self.match.verdict is MatchVerdict.SAME


@dataclass(frozen=True, slots=True)
class QualityFigures:
    pairs: int
    same: int
    right: int
    """Said to be the same, and they are."""
    wrong: int
    """Said to be the same, and they are not."""
    unsure: int

    @property
    def precision(self) -> float:
        return self.right / (self.right + self.wrong) if self.right + self.wrong else 1.0

    @property
    def recall(self) -> float:
        return self.right / self.same if self.same else 1.0

    @property
    def f1(self) -> float:
        return 2 * self.right / (self.same + self.right + self.wrong) if self.same + self.wrong else 1.0


def pairs(path: Path = PAIRS) -> list[NamePair]:
    return [NamePair(**json.loads(line)) for line in path.read_text("utf-8").splitlines() if line.strip()]


def judged(
    known: Sequence[NamePair], compare: Callable[[str, str], CompanyMatch | PersonMatch] = compare_companies
) -> list[JudgedPair]:
    return [JudgedPair(pair, compare(pair.one, pair.other)) for pair in known]


def figures(found: Sequence[JudgedPair]) -> QualityFigures:
    return QualityFigures(
        pairs=len(found),
        same=sum(each.pair.same for each in found),
        right=sum(each.said_same and each.pair.same for each in found),
        wrong=sum(each.said_same and not each.pair.same for each in found),
        unsure=sum(each.match.verdict is MatchVerdict.UNSURE for each in found),
    )


def simple(known: Sequence[NamePair], *, forms: bool) -> float:
    """Return the best F1 of a plain comparison at any threshold: words sorted, with or without legal forms."""

    def text(name: str) -> str:
        return name.casefold() if forms else " ".join(company_parts(name).words)

    scored = [(fuzz.token_sort_ratio(text(pair.one), text(pair.other)), pair.same) for pair in known]
    positive = sum(same for _, same in scored)
    best = 0.0
    for threshold in range(50, 101):
        right = sum(same for score, same in scored if score >= threshold)
        said = sum(score >= threshold for score, _ in scored)
        best = max(best, 2 * right / (said + positive))
    return best


def table(found: Sequence[JudgedPair]) -> list[str]:
    """Return the lines of a table of figures: all pairs, and by half, script and kind."""
    lines = [
        "| | pairs | of them same | said same rightly | wrongly | unsure | precision | recall | F1 |",
        "| --- " * 9 + "|",
    ]

    def row(name: str, chosen: Sequence[JudgedPair]) -> str:
        of = figures(chosen)
        return (
            f"| {name} | {of.pairs} | {of.same} | {of.right} | {of.wrong} | {of.unsure} "
            f"| {of.precision:.3f} | {of.recall:.3f} | {of.f1:.3f} |"
        )

    def rows(title: str, key: Callable[[NamePair], str]) -> list[str]:
        names = sorted({key(each.pair) for each in found})
        return [row(f"{title} {name}", [each for each in found if key(each.pair) == name]) for name in names]

    lines.append(row("**all**", found))
    lines += rows("half:", lambda pair: pair.half)
    lines += rows("script:", lambda pair: pair.script)
    return lines + rows("kind:", lambda pair: pair.kind)


def written(found: Sequence[JudgedPair]) -> str:
    known = [each.pair for each in found]
    lines = [
        *table(found),
        "",
        "| beside it, at the threshold that suits it best | F1 |",
        "| --- | --- |",
        f"| casefold, words sorted (`token_sort_ratio`) | {simple(known, forms=True):.3f} |",
        f"| the same without legal forms | {simple(known, forms=False):.3f} |",
    ]
    return "\n".join(lines) + "\n"


def list_wrong(found: Sequence[JudgedPair], *, both_halves: bool) -> list[JudgedPair]:
    """Print the wrong answers of the tuned half, or of both; return the pairs that were looked at."""
    chosen = [each for each in found if both_halves or each.pair.half == TUNED]
    for each in chosen:
        if each.said_same != each.pair.same:
            reasons = ", ".join(f"{'+' if it.agrees else '-'}{it.code} {it.detail}" for it in each.match.reasons)
            truth = "same     " if each.pair.same else "different"
            print(f"{truth} {each.match.score:.2f} {each.pair.one} | {each.pair.other} [{reasons}]")
    return chosen


def write_between(page: Path, begin: str, text: str) -> None:
    """Put a text between the marks of a page."""
    before, rest = page.read_text("utf-8").split(begin)
    page.write_text(before + begin + text + END + rest.split(END, 1)[1], "utf-8")


def main(arguments: Sequence[str]) -> None:
    found = judged(pairs())
    if "--wrong" in arguments:
        found = list_wrong(found, both_halves="--all" in arguments)
    tables = written(found)
    if "--write" in arguments:
        write_between(PAGE, BEGIN, tables)
    print(tables)


if __name__ == "__main__":
    main(sys.argv[1:])
