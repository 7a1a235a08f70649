"""How well articles finds topics: `python -m tools.articles_quality [--calibrate] [--news FILE.csv] [--write]`.

`--calibrate` fits classifying/calibration.json on the texts of systems/tests/articles/classifying/examples.tsv.
`--news` measures with AG News too, which does not ship: class, title and description in a row. Everything was chosen on
one half of it, and is reported on the other. `--write` puts the tables into docs/systems/articles-quality.md, with the
drawing.
"""

import asyncio
import json
import random
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from rowmill_systems.articles.classifying.calibration import (
    FILE,
    Calibration,
    CalibrationBin,
    calibration_bins,
    calibration_error,
    fit_logistic,
)
from rowmill_systems.articles.classifying.embedding import EmbeddingClassifier
from rowmill_systems.articles.classifying.evaluating import EvaluationReport, calibration_svg, evaluate
from rowmill_systems.articles.classifying.labelled import LabelledArticle, map_labels, read_labelled
from rowmill_systems.articles.classifying.port import ArticleText
from rowmill_systems.articles.classifying.taxonomy import load_taxonomy
from rowmill_systems.articles.classifying.texts import WORD
from rowmill_systems.articles.classifying.topic_model import TopicModel, open_topic_model
from rowmill_systems.articles.classifying.trained import TrainedClassifier
from rowmill_systems.articles.classifying.training import train
from rowmill_systems.parts.embeddings import Vectors, open_embedder

HOME = Path(__file__).parents[1]
TESTS = HOME / "systems" / "tests" / "articles" / "classifying"
PAGE = HOME / "docs" / "systems" / "articles-quality.md"
DRAWING = HOME / "docs" / "systems" / "articles-calibration.svg"
BEGIN, END = "<!-- results: written by tools.articles_quality -->\n", "<!-- end of results -->"
NEWS_MAP = {"1": "world,politics", "2": "sport", "3": "business", "4": "technology,science"}
FOUR_MAP = {"1": "world", "2": "sports", "3": "business", "4": "science-technology"}
LABELS = (40, 200, 1000, 4000)
Example = tuple[str, tuple[str, ...], str]
"""Language, topics, text."""


def examples() -> list[Example]:
    """Return texts that we wrote, with their topics. Some have none."""
    found: list[Example] = []
    for line in (TESTS / "examples.tsv").read_text("utf-8").splitlines()[1:]:
        language, topics, text = line.split("\t")
        found.append((language, tuple(each for each in topics.split(",") if each), text))
    return found


def harder(given: Sequence[Example]) -> list[Example]:
    """Add the single sentences of each text, and the text with words left out: feeds say less than our examples do."""
    chance = random.Random(5)
    found = list(given)
    for language, topics, text in given:
        sentences = [each for each in re.split(r"(?<=[.;:!?]) ", text) if len(each.split()) > 3]
        found += [(language, topics, each) for each in sentences if len(sentences) > 1]
        words = text.split()
        if topics and len(words) > 6:
            found += [(language, topics, " ".join(w for w in words if chance.random() < 0.6)) for _ in range(2)]
    return found


def truth_of(given: Sequence[Example], keys: Sequence[str]) -> Vectors:
    place = {key: column for column, key in enumerate(keys)}
    truth = np.zeros((len(given), len(keys)), np.float32)
    for row, (_, topics, _) in enumerate(given):
        truth[row, [place[topic] for topic in topics]] = 1
    return truth


def calibrate() -> Calibration:
    """Fit the calibration on our examples."""
    embedder, given = open_embedder(), harder(examples())
    texts = [text for *_, text in given]
    vectors = asyncio.run(embedder.embed(texts))
    model = asyncio.run(open_topic_model(embedder, load_taxonomy()))
    similarity, log_share = model.evidence(vectors, texts)
    short = np.array([1 / max(len(WORD.findall(text)), 1) for text in texts])[:, None] + 0 * similarity
    features = np.stack([similarity, log_share, short], axis=-1).reshape(-1, 3)
    weights = fit_logistic(features, truth_of(given, model.keys).ravel().astype(float))
    return Calibration(*(round(float(weight), 4) for weight in weights))


def language_table(model: TopicModel) -> tuple[list[str], list[CalibrationBin]]:
    given, embedder = examples(), open_embedder()
    texts = [text for *_, text in given]
    vectors = asyncio.run(embedder.embed(texts))
    chances = model.probabilities(vectors, texts)
    truth = truth_of(given, model.keys).astype(bool)
    spoken = [model.languages[place] for place in model.language_of(vectors)]
    lines = ["| language | texts | language recognised | best topic right | one of three right | group right |",
             "| --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    for language in model.languages:
        rows = [row for row, (own, topics, _) in enumerate(given) if own == language and topics]
        best = chances[rows].argmax(axis=1)
        three = np.argsort(-chances[rows], axis=1)[:, :3]
        first = np.mean([truth[row, place] for row, place in zip(rows, best, strict=True)])
        among = np.mean([truth[row, places].any() for row, places in zip(rows, three, strict=True)])
        group = np.mean([
            model.keys[place].split(".")[0] in {topic.split(".")[0] for topic in given[row][1]}
            for row, place in zip(rows, best, strict=True)
        ])  # fmt: skip
        right = np.mean([spoken[row] == language for row in rows])
        lines.append(f"| {language} | {len(rows)} | {right:.2f} | {first:.2f} | {among:.2f} | {group:.2f} |")
    none = [row for row, (_, topics, _) in enumerate(given) if not topics]
    kept = int((chances[none].max(axis=1) < 0.3).sum())
    lines += ["", f"Texts without a topic: {kept} of {len(none)} get none."]
    hits = truth[np.arange(len(given)), chances.argmax(axis=1)]
    return lines, calibration_bins(chances.max(axis=1), hits)


def halves(articles: Sequence[LabelledArticle]) -> tuple[list[LabelledArticle], list[LabelledArticle]]:
    """Return the half that everything was chosen on, and the other."""
    order = np.random.default_rng(1).permutation(len(articles))
    middle = len(articles) // 2
    return [articles[place] for place in order[:middle]], [articles[place] for place in order[middle:]]


def row(name: str, report: EvaluationReport, more: str = "") -> str:
    at = {each.threshold: each for each in report.coverage}[0.7]
    covered = f"{at.accuracy:.3f} of {at.covered:.0%}" if at.accuracy is not None else "-"
    figures = (report.accuracy, report.macro_f1, report.calibration_error)
    return f"| {name} | {' | '.join(f'{each:.3f}' for each in figures)} | {covered} | {more} |"


def news_table(path: Path) -> tuple[list[str], dict[str, Sequence[CalibrationBin]]]:
    embedder, shipped = open_embedder(), load_taxonomy()
    file = read_labelled(path)
    chosen_on, held_out = halves(file.articles)
    topics, _ = map_labels(file.labels, shipped, NEWS_MAP)
    lines = ["| held-out half of AG News | accuracy | macro F1 | calibration error | scores from 0.7 | training |",
             "| --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    classifier = EmbeddingClassifier(embedder, shipped)
    report = asyncio.run(evaluate(classifier, held_out, topics))
    drawn: dict[str, Sequence[CalibrationBin]] = {"AG News, no labels": report.bins}
    lines.append(row("our topics, mapped to its four classes", report))
    four = load_taxonomy(TESTS / "four.toml")
    own, _ = map_labels(file.labels, four, FOUR_MAP)
    lines.append(
        row(
            "a taxonomy of four topics, one line each",
            asyncio.run(evaluate(EmbeddingClassifier(embedder, four), held_out, own)),
        )
    )
    for count in LABELS:
        extra = max(0, count - len(chosen_on))
        labelled, rest = [*chosen_on[:count], *held_out[:extra]], held_out[extra:]
        model, trained = asyncio.run(train(labelled, embedder, topics=topics))
        with_labels = TrainedClassifier(embedder, shipped, model, Path("model"))
        report = asyncio.run(evaluate(with_labels, rest, {label: [label] for label in file.labels}))
        lines.append(row(f"trained with {count:,} labels", report, f"{trained.seconds:.1f} s"))
        if count == LABELS[-1]:
            drawn[f"AG News, {count:,} labels"] = report.bins
    return lines, drawn


def speed_lines(count: int = 100_000, alone: int = 2000) -> list[str]:
    """Compare batches with one article at a time. The texts are our examples, again and again."""
    texts = [text for _, topics, text in examples() if topics]
    articles = [ArticleText(text, texts[(place * 7) % len(texts)]) for place, text in enumerate(texts)]
    classifier = EmbeddingClassifier(open_embedder(), load_taxonomy())

    async def batches(size: int, total: int) -> float:
        begun = time.process_time()
        for start in range(0, total, size):
            some = [articles[place % len(articles)] for place in range(start, min(start + size, total))]
            await classifier.classify_batch(some)
        return total / (time.process_time() - begun)

    async def measure() -> list[str]:
        await classifier.classify_batch(articles[:1])
        rates = {size: await batches(size, count if size >= 10 else alone) for size in (1, 10, 100, 1000)}
        lines = ["| articles in a call | per second of one core | beside one by one |", "| --- | --- | --- |"]
        return lines + [f"| {size:,} | {rate:,.0f} | {rate / rates[1]:.1f} × |" for size, rate in rates.items()]

    return asyncio.run(measure())


def main(options: Sequence[str]) -> None:
    if "--calibrate" in options:
        fitted = calibrate()
        FILE.write_text(json.dumps(asdict(fitted)) + "\n")
        print(fitted)
        return
    model = asyncio.run(open_topic_model(open_embedder(), load_taxonomy()))
    languages, own = language_table(model)
    parts = [
        "### Our examples",
        "",
        *languages,
        "",
        f"Calibration error on them, which it was fitted on: {calibration_error(own):.3f}.",
        "",
    ]
    drawn: dict[str, Sequence[CalibrationBin]] = {"our examples": own}
    if "--news" in options:
        table, bins = news_table(Path(options[list(options).index("--news") + 1]))
        parts += ["### AG News", "", *table, ""]
        drawn |= bins
    parts += ["### Speed", "", *speed_lines(), ""]
    print("\n".join(parts))
    if "--write" in options:
        text = PAGE.read_text("utf-8")
        before, after = text.split(BEGIN)[0], text.split(END)[1]
        PAGE.write_text(before + BEGIN + "\n" + "\n".join(parts) + "\n" + END + after)
        DRAWING.write_text(calibration_svg("How often an answer is right, by its score", drawn))


if __name__ == "__main__":
    main(sys.argv[1:])
