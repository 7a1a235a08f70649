"""Options that many commands share, with one name and one help text each."""

from typing import Annotated, Any

import typer

MOST_ROWS = 1_000_000_000
"""Upper bound of options that take a number of rows. Databases count with 64 bits; a larger number is a typing
error."""

AppOption = Annotated[
    str | None,
    typer.Option(
        "--app",
        metavar="MODULE:MILL",
        help="The mill to use. Default: ROWMILL_APP, or app in [tool.rowmill] of pyproject.toml.",
    ),
]
UrlOption = Annotated[
    str | None,
    typer.Option("--database-url", metavar="URL", help="Use this database instead of the mill's own."),
]
LimitOption = Annotated[
    int, typer.Option("--limit", "-n", metavar="N", min=1, max=MOST_ROWS, help="Show at most N rows.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]

QueueArgument = Annotated[str, typer.Argument(metavar="QUEUE", help="The name of the queue.")]
KeyArgument = Annotated[
    str, typer.Argument(metavar="KEY", help="The key of the row. Join the parts of a composite key with |.")
]

StateOption = Annotated[
    list[str] | None,
    typer.Option(
        "--state",
        metavar="WORD",
        help="Rows in this state: a word of your table, or ready, waiting, running, done, dead, cancelled.",
    ),
]
StageOption = Annotated[
    str | None,
    typer.Option("--stage", metavar="NAME", help="Rows at this stage. For dead rows, the stage that failed."),
]
ErrorCodeOption = Annotated[
    str | None, typer.Option("--error-code", metavar="CODE", help="Rows whose last error has this code.")
]
SinceOption = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="WHEN", help="Rows changed since: 90s, 15m, 6h, 7d, or a time such as 2026-01-31T12:00."
    ),
]
UntilOption = Annotated[
    str | None,
    typer.Option("--until", metavar="WHEN", help="Rows not changed after this time. Same format as --since."),
]
WhereOption = Annotated[str | None, typer.Option("--where", metavar="SQL", help="Rows that match this SQL condition.")]
KeyOption = Annotated[list[str] | None, typer.Option("--key", metavar="KEY", help="The row with this key. Repeatable.")]

Words = list[str] | None


def _word(kind: str, meaning: str) -> Any:
    text = f"A word for {meaning}. Repeatable."
    return typer.Option(f"--{kind}", metavar="WORD", help=text)


ReadyOption = Annotated[Words, _word("ready", "rows to process")]
RunningOption = Annotated[Words, _word("running", "rows in progress")]
DoneOption = Annotated[Words, _word("done", "rows that are done")]
DeadOption = Annotated[Words, _word("dead", "rows that failed permanently")]
WaitingOption = Annotated[Words, _word("waiting", "rows that wait for a retry")]
CancelledOption = Annotated[Words, _word("cancelled", "cancelled rows")]
OtherOption = Annotated[Words, _word("other", "rows that Rowmill ignores")]
ColumnOption = Annotated[
    list[str] | None,
    typer.Option("--column", metavar="PART=COLUMN", help="Use this column for a part, as in error=last_error."),
]
StateColumnOption = Annotated[
    str | None, typer.Option("--state-column", metavar="COLUMN", help="The column that holds the state.")
]
