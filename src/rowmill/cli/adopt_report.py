"""The report of `rowmill adopt`."""

import sys
from typing import Any

from rowmill.adopt import Adoption, MigrationStep
from rowmill.adopt.revision import as_sql
from rowmill.adopt.table_facts import ALL
from rowmill.cli.output import one_line, say


def show_step(change: MigrationStep, done: int) -> None:
    """Print progress on stderr: a line per step. Row counts of long steps appear on a terminal only."""
    if not done:
        say(change.what)
    elif sys.stderr.isatty():
        print(f"\r  {done:,} rows", end="\n" if change.fill is None else "\r", file=sys.stderr, flush=True)


def rows(found: Adoption) -> str:
    if found.exact:
        return f"{found.rows:,} row{'' if found.rows == 1 else 's'}"
    return f"more than {ALL:,} rows" if found.rows == ALL + 1 else f"about {found.rows:,} rows"


def report(found: Adoption) -> dict[str, Any]:
    """Return the result for --json."""
    return {
        "table": found.table,
        "rows": found.rows,
        "exact": found.exact,
        "columns": found.columns,
        "added": found.added,
        "states": found.states,
        "seen": words_of(found.seen),
        "unknown": words_of(found.unknown),
        "missing": [
            {"part": change.part, "what": change.what, "statements": change.statements, "undo": change.undo}
            for change in found.plan.changes
        ],
        "obstacles": found.plan.obstacles,
        "doubts": found.doubts,
        "notes": found.notes,
        "declaration": found.declaration,
    }


def words_of(counts: dict[Any, int]) -> dict[str, int]:
    return {"NULL" if word is None else one_line(word)[:100]: number for word, number in counts.items()}


def show(found: Adoption, postgres: bool) -> None:
    """Print the result for people."""
    print(f"{found.table}, {rows(found)}")
    for role, name in found.columns.items():
        print(f"  {role:<13} {name}{'   (to be added)' if name in found.added else ''}")
    for kind, words in found.states.items():
        seen = words_of({word: number for word, number in found.seen.items() if word in words})
        counts = ", ".join(f"{word} ({number:,})" for word, number in seen.items())
        print(f"  {kind:<13} {', '.join(map(str, words))}{f'   seen: {counts}' if counts else ''}")
    for title, texts in (
        ("Missing", [change.what for change in found.plan.changes]),
        ("In the way", found.plan.obstacles),
        ("In doubt", found.doubts),
        ("Note", found.notes),
    ):
        if texts:
            print(f"\n{title}:")
            for text in texts:
                print(f"  - {text}")
    if not found.plan:
        print("\nNothing is missing.")
    if found.plan.changes:
        print(f"\nThe migration (rowmill adopt --apply makes it):\n\n{as_sql(found.plan, postgres, brief=True)}")
    if found.declaration:
        doubtful = ", a guess until the doubts above are settled" if found.doubts else ""
        print(f"\nThe declaration{doubtful}:\n\n{found.declaration}")
