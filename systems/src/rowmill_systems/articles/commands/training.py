"""`rowmill systems articles train`"""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rowmill.systems.commands import JsonOption, UsageError, emit, say, table
from rowmill_systems.articles.commands.labelled_files import (
    DelimiterOption,
    DescriptionOption,
    FileArgument,
    LabelOption,
    LimitOption,
    MapOption,
    SeparatorOption,
    TaxonomyOption,
    TitleOption,
    load_settings,
    read,
)
from rowmill_systems.articles.commands.loading import usage_errors

if TYPE_CHECKING:
    from rowmill_systems.articles.classifying.training import TrainingReport


def train(
    file: FileArgument,
    out: Annotated[
        Path, typer.Option("--out", "--output", "-o", metavar="FILE", help="Where the model is written.")
    ] = Path("topics.npz"),
    label: LabelOption = None,
    title: TitleOption = None,
    description: DescriptionOption = None,
    separator: SeparatorOption = ";|",
    map_: MapOption = None,
    drop_rare: Annotated[
        bool, typer.Option("--drop-rare", help="Leave out labels that have too few articles.")
    ] = False,
    taxonomy: TaxonomyOption = None,
    delimiter: DelimiterOption = None,
    limit: LimitOption = None,
    json: JsonOption = False,
) -> None:
    """Train a model with labels of your own, in seconds. ARTICLES_TRAINED_MODEL then names the file.

    Labels need five articles each. A label that is the name of a topic, or is mapped to topics, starts with what their
    descriptions say, so that few labels are not worse than none. The accuracy that is printed is measured on articles
    that the model had not seen. Nothing of your texts is in the file.

    \b
    Example:
      rowmill systems articles train labelled.csv --label section --title headline --text body --out topics.npz
      rowmill systems articles train news.csv --label 1 --title 2 --text 3 --map "1=world,politics" --map 2=sport
    """
    settings = load_settings(taxonomy=taxonomy)

    from rowmill_systems.articles.classifying.labelled import LabelledColumns, map_labels, parse_map
    from rowmill_systems.articles.classifying.taxonomy import load_taxonomy
    from rowmill_systems.articles.classifying.training import train as train_model
    from rowmill_systems.articles.classifying.training import without_rare
    from rowmill_systems.parts.embeddings import open_embedder

    if not out.resolve().parent.is_dir():
        raise UsageError(f"{out}: the folder does not exist. Make it, or give another --out")
    found = read(file, LabelledColumns(label, title, description, separator), delimiter, limit)
    with usage_errors(str(file)):
        topics_of = load_taxonomy(settings.taxonomy)
        known, unknown = map_labels(found.labels, topics_of, parse_map(map_ or []))
        labelled = list(found.articles)
        if drop_rare:
            labelled, rare = without_rare(labelled)
            if rare:
                say(f"left out, with too few articles: {', '.join(rare)}")
        model, report = asyncio.run(train_model(labelled, open_embedder("wordllama"), taxonomy=topics_of, topics=known))
    if unknown:
        say(f"no topic is known for: {', '.join(unknown[:20])}. They are learned from the articles alone; see --map")
    try:
        model.save(out)
    except OSError as error:
        raise UsageError(f"{out}: it can't be written. Give another --out") from error
    emit({**_plain(report), "model": str(out)}, json, lambda: _tell(report, out))


def _plain(report: "TrainingReport") -> dict[str, object]:
    from dataclasses import asdict

    return asdict(report)


def _tell(report: "TrainingReport", out: Path) -> None:
    from rowmill_systems.articles.classifying.evaluating import bin_lines

    table(["label", "articles"], [(label, f"{count:,}") for label, count in report.labels.items()])
    print()
    print(f"accuracy on {report.judged:,} articles that were not seen: {report.accuracy:.3f}")
    if report.prior_accuracy is not None:
        print(f"by the descriptions of topics alone: {report.prior_accuracy:.3f}")
    print(f"calibration error: {report.calibration_error:.3f}")
    for line in bin_lines(report.bins):
        print(line)
    print()
    print(f"written to {out} in {report.seconds:.1f} s. To use it: ARTICLES_TRAINED_MODEL={out}")
