"""How often names are rightly said to be of one person: `python -m tools.person_names_quality [--write] [--wrong]`.

The pairs of systems/tests/parts/names/people_pairs.jsonl are compared. `--write` puts the table into
docs/systems/person-names.md; `--wrong` lists what went wrong in the tuned half, `--wrong --all` in both.
"""

import sys
from collections.abc import Sequence

from rowmill_systems.parts.names.people import compare_people
from tools.company_names_quality import HOME, JudgedPair, judged, list_wrong, pairs, table, write_between

PAIRS = HOME / "systems" / "tests" / "parts" / "names" / "people_pairs.jsonl"
PAGE = HOME / "docs" / "systems" / "person-names.md"
BEGIN = "<!-- results: written by tools.person_names_quality -->\n"


def judged_people() -> list[JudgedPair]:
    return judged(pairs(PAIRS), compare_people)


def main(arguments: Sequence[str]) -> None:
    found = judged_people()
    if "--wrong" in arguments:
        found = list_wrong(found, both_halves="--all" in arguments)
    lines = "\n".join(table(found)) + "\n"
    if "--write" in arguments:
        write_between(PAGE, BEGIN, lines)
    print(lines)


if __name__ == "__main__":
    main(sys.argv[1:])
