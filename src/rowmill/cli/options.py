"""Options that many commands share, so that they are called and explained the same everywhere."""

from typing import Annotated, Any

import typer

MOST_ROWS = 1_000_000_000
"""What an option for a number of rows takes at most: databases count with 64 bits, and more is a slip of the finger."""

AppOption = Annotated[
    str | None,
    typer.Option(
        "--app",
        metavar="MODULE:MILL",
        help="Where the mill is. Otherwise ROWMILL_APP, or app in [tool.rowmill] of pyproject.toml.",
    ),
]
UrlOption = Annotated[
    str | None,
    typer.Option("--database-url", metavar="URL", help="Another database than the one that the mill names."),
]
LimitOption = Annotated[
    int, typer.Option("--limit", "-n", metavar="N", min=1, max=MOST_ROWS, help="The most rows to show.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]

QueueArgument = Annotated[str, typer.Argument(metavar="QUEUE", help="The name of the queue.")]
KeyArgument = Annotated[
    str, typer.Argument(metavar="KEY", help="The key of the row; the parts of a composite key joined by |.")
]

StateOption = Annotated[
    list[str] | None,
    typer.Option(
        "--state",
        metavar="WORD",
        help="Rows in this state: a word of the table, or ready, waiting, running, done, dead, cancelled.",
    ),
]
StageOption = Annotated[
    str | None, typer.Option("--stage", metavar="NAME", help="Rows at this stage; dead ones by the stage that failed.")
]
ErrorCodeOption = Annotated[
    str | None, typer.Option("--error-code", metavar="CODE", help="Rows whose last failure has this code.")
]
SinceOption = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="WHEN", help="Rows that changed since: 90s, 15m, 6h, 7d, or a time such as 2026-01-31T12:00."
    ),
]
UntilOption = Annotated[
    str | None,
    typer.Option("--until", metavar="WHEN", help="Rows that did not change after this time, written as for --since."),
]
WhereOption = Annotated[
    str | None, typer.Option("--where", metavar="SQL", help="Rows for which this SQL condition holds.")
]
KeyOption = Annotated[
    list[str] | None, typer.Option("--key", metavar="KEY", help="The row with this key; may be given several times.")
]

Words = list[str] | None


def _word(kind: str, meaning: str) -> Any:
    text = f"A word for {meaning}; may be given several times."
    return typer.Option(f"--{kind}", metavar="WORD", help=text)


ReadyOption = Annotated[Words, _word("ready", "rows to work on")]
RunningOption = Annotated[Words, _word("running", "rows in progress")]
DoneOption = Annotated[Words, _word("done", "rows that are done")]
DeadOption = Annotated[Words, _word("dead", "rows that failed for good")]
WaitingOption = Annotated[Words, _word("waiting", "rows that wait for their next try")]
CancelledOption = Annotated[Words, _word("cancelled", "rows that are no longer wanted")]
OtherOption = Annotated[Words, _word("other", "rows that are left alone on purpose")]
ColumnOption = Annotated[
    list[str] | None,
    typer.Option("--column", metavar="PART=COLUMN", help="Which column plays a part, as in error=last_error."),
]
StateColumnOption = Annotated[
    str | None, typer.Option("--state-column", metavar="COLUMN", help="The column that holds the state.")
]
