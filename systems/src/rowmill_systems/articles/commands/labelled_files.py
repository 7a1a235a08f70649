"""What `train` and `evaluate` share: options for labelled files, and errors as messages of the command line."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rowmill.systems import commands
from rowmill.systems.commands import UsageError, say
from rowmill_systems.articles.commands.loading import NEEDED, usage_errors

if TYPE_CHECKING:
    from rowmill_systems.articles.classifying.labelled import LabelledColumns, LabelledFile
    from rowmill_systems.articles.settings import ArticlesSettings

FileArgument = Annotated[
    Path,
    typer.Argument(metavar="FILE.csv", help="Articles with labels, with or without a first line of names; - is stdin."),
]
LabelOption = Annotated[
    str | None, typer.Option("--label", metavar="COLUMN", help="Where the labels are: a name, or a number from 1.")
]
TitleOption = Annotated[str | None, typer.Option("--title", metavar="COLUMN", help="Where titles are.")]
DescriptionOption = Annotated[
    str | None, typer.Option("--description", "--text", metavar="COLUMN", help="Where texts are.")
]
SeparatorOption = Annotated[
    str, typer.Option("--separator", metavar="SIGNS", help="Between several labels of one cell. '' for none.")
]
MapOption = Annotated[
    list[str] | None,
    typer.Option(
        "--map", metavar="LABEL=TOPICS", help='What a label means, if its name does not say it: "1=world,politics".'
    ),
]
TaxonomyOption = Annotated[
    Path | None,
    typer.Option("--taxonomy", metavar="FILE.toml", help="Topics of your own. Otherwise ARTICLES_TAXONOMY, or ours."),
]
DelimiterOption = Annotated[
    str | None,
    typer.Option("--delimiter", metavar="SIGN", help="What separates the cells, if the detection is wrong: ';', tab…"),
]
LimitOption = Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="Read only the first N articles.")]


def load_settings(**options: Any) -> "ArticlesSettings":
    """Build the settings. Raises UsageError with the fix."""
    try:
        import numpy  # noqa: F401
        import tokenizers  # noqa: F401

        from rowmill_systems.articles.settings import ArticlesSettings
    except ImportError as error:
        raise UsageError(NEEDED.format(error.name)) from error
    return commands.settings_from(ArticlesSettings, **options)


def read(file: Path, columns: "LabelledColumns", delimiter: str | None, most: int | None) -> "LabelledFile":
    """Read the file, and tell how many rows were left out."""
    from rowmill_systems.articles.classifying.labelled import read_labelled

    with usage_errors(str(file)):
        found = read_labelled(None if str(file) == "-" else file, columns, delimiter=delimiter, most=most)
    if found.skipped:
        say(f"{found.skipped:,} rows were left out: they have no text, or more cells than columns")
    return found


def tell_mapping(topics: Mapping[str, Sequence[str]], most: int = 4) -> None:
    """Say which topics stand for which label."""
    for label, found in topics.items():
        shown = ", ".join(found[:most]) + (f" and {len(found) - most} more" if len(found) > most else "")
        say(f"{label}: {shown}")
