"""`rowmill systems articles evaluate`"""

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import rowmill as rm
from rowmill.systems.commands import JsonOption, UrlOption, UsageError, emit, given_url, say, table
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
    tell_mapping,
)
from rowmill_systems.articles.commands.loading import usage_errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rowmill_systems.articles.classifying.evaluating import EvaluationReport
    from rowmill_systems.articles.classifying.labelled import LabelledArticle
    from rowmill_systems.articles.settings import ArticlesSettings

MOST_COLUMNS = 12
"""Labels of which the confusion is printed; --json has all."""


def evaluate(
    file: FileArgument,
    model: Annotated[
        Path | None,
        typer.Option("--model", metavar="FILE", help="What train wrote. Otherwise ARTICLES_TRAINED_MODEL, if set."),
    ] = None,
    label: LabelOption = None,
    title: TitleOption = None,
    description: DescriptionOption = None,
    separator: SeparatorOption = ";|",
    map_: MapOption = None,
    taxonomy: TaxonomyOption = None,
    delimiter: DelimiterOption = None,
    limit: LimitOption = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE.svg", help="Draw the calibration into this file.")
    ] = None,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Measure the classifier with labelled articles: accuracy, per label, confusion, calibration, coverage.

    A label is taken for the topic or the group of its name, in any language; --map says otherwise. The classifier is
    that of the settings: ARTICLES_CLASSIFIER and so on.

    \b
    Example:
      rowmill systems articles evaluate news.csv --label section --title headline --text body
      rowmill systems articles evaluate ag_news.csv --map "1=world,politics" --map 2=sport --map 3=business \\
        --map "4=technology,science" --plot calibration.svg
    """
    settings = load_settings(taxonomy=taxonomy, trained_model=model, database_url=given_url(database_url))

    from rowmill_systems.articles.classifying.evaluating import calibration_svg
    from rowmill_systems.articles.classifying.labelled import LabelledColumns

    found = read(file, LabelledColumns(label, title, description, separator), delimiter, limit)
    with usage_errors(str(file)):
        topics = _topics(settings, found.labels, map_ or [])
        if not json:
            tell_mapping(topics)
        report = asyncio.run(_evaluate(settings, found.articles, topics))
    if plot is not None:
        try:
            plot.write_text(calibration_svg(f"Calibration, {report.articles:,} articles", {"answers": report.bins}))
        except OSError as error:
            raise UsageError(f"{plot}: it can't be written. Give another --plot") from error
    emit(asdict(report), json, lambda: _tell(report))


def _topics(
    settings: "ArticlesSettings", labels: "Sequence[str]", given: "Sequence[str]"
) -> "Mapping[str, Sequence[str]]":
    """Return what each label means to the classifier. Raises BadSheet if a label means nothing to it."""
    from rowmill_systems.articles.classifying.labelled import map_labels, parse_map
    from rowmill_systems.articles.classifying.taxonomy import load_taxonomy, plain_name
    from rowmill_systems.articles.classifying.trained import load_trained
    from rowmill_systems.parts.sheets import BadSheet

    by_hand = parse_map(given)
    if settings.trained_model is not None:
        own = {plain_name(label): label for label in load_trained(settings.trained_model).labels}
        topics = {label: [own.get(plain_name(by_hand.get(label, label)), "")] for label in labels}
        unknown = [label for label, (topic,) in topics.items() if not topic]
        known = ", ".join(own.values())
    else:
        taxonomy = load_taxonomy(settings.taxonomy)
        found, left = map_labels(labels, taxonomy, by_hand)
        topics, unknown = {label: list(each) for label, each in found.items()}, list(left)
        known = ", ".join(list(taxonomy.groups) or list(taxonomy.topics)[:30])
    if unknown:
        raise BadSheet(
            f"these labels mean nothing to the classifier: {', '.join(unknown[:20])}. Say what they mean: "
            f'--map "{unknown[0]}=TOPIC". There are: {known}'
        )
    return topics


async def _evaluate(
    settings: "ArticlesSettings", articles: "Sequence[LabelledArticle]", topics: "Mapping[str, Sequence[str]]"
) -> "EvaluationReport":
    from rowmill_systems.articles.classifying.evaluating import evaluate as measure
    from rowmill_systems.articles.classifying.open import open_classifier

    if settings.classifier != "endpoint":
        classifier = open_classifier(settings, None)
        return await measure(classifier, articles, topics)
    mill = rm.Mill(settings.database_url)
    async with mill.opened():
        await mill.migrate()
        classifier = open_classifier(settings, mill)
        try:
            return await measure(classifier, articles, topics)
        finally:
            await classifier.close()


def _tell(report: "EvaluationReport") -> None:
    from rowmill_systems.articles.classifying.evaluating import bin_lines

    print(f"{report.articles:,} articles, {report.per_second:,.0f} a second, by {report.classifier}")
    if report.failed:
        say(f"{report.failed:,} articles could not be classified; they count as wrong")
    print(f"accuracy {report.accuracy:.3f}, macro F1 {report.macro_f1:.3f}, micro F1 at 0.3 {report.micro_f1:.3f}")
    print()
    table(
        ["label", "articles", "precision", "recall", "F1"],
        [
            (label, f"{each.articles:,}", f"{each.precision:.3f}", f"{each.recall:.3f}", f"{each.f1:.3f}")
            for label, each in report.labels.items()
        ],
    )
    columns = list(next(iter(report.confusion.values())))
    if len(columns) <= MOST_COLUMNS:
        print()
        rows = [(own, *(f"{said[column]:,}" for column in columns)) for own, said in report.confusion.items()]
        table(["is \\ said", *columns], rows)
    print()
    print(f"calibration error: {report.calibration_error:.3f}")
    for line in bin_lines(report.bins):
        print(line)
    print()
    table(
        ["only scores from", "articles covered", "accuracy"],
        [
            (f"{each.threshold:.1f}", f"{each.covered:.1%}", "-" if each.accuracy is None else f"{each.accuracy:.3f}")
            for each in report.coverage
        ],
    )
