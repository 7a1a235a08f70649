"""`python -m demos.articles`: sync feeds that misbehave, and classify their articles. Exits with 0 only if all came out
right."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from demos.articles.run import Result, run
from demos.performing import JsonOption, KeepOption, OnProgress, UrlOption, perform


def main(
    feeds: Annotated[int, typer.Option(min=4, max=2000, help="Feeds that behave.")] = 36,
    articles: Annotated[int, typer.Option(min=100, max=100_000, help="Articles in them, together.")] = 3000,
    database_url: UrlOption = None,
    keep: KeepOption = False,
    as_json: JsonOption = False,
) -> None:
    """Sync feeds of all kinds from a local server, classify their articles by two workers, and read them."""

    def all_of_it(folder: Path, on_progress: OnProgress) -> Result:
        return run(folder, feeds=feeds, articles=articles, database_url=database_url, on_progress=on_progress)

    perform("articles", all_of_it, show, keep=keep, as_json=as_json)


def show(console: Console, result: Result) -> None:
    console.print(f"sync: {result.feeds} feeds, {result.articles:,} articles saved in {result.sync_seconds} s")
    failures = ", ".join(f"{code} {number}" for code, number in sorted(result.failures.items()))
    console.print(f"feeds that misbehave, by code: {failures}; retired: {result.retired}")
    console.print(
        f"server of feeds: {result.requests} requests, at most {result.most_per_host} at once to one host, "
        f"{result.out_of_turn} before the end of a Retry-After"
    )
    console.print(
        f"API: {result.idle_ms['p50']} ms (p50), {result.idle_ms['p99']} ms (p99) idle; "
        f"{result.sync_ms['p50']} and {result.sync_ms['p99']} ms during the sync; "
        f"{result.busy_ms['p50']} and {result.busy_ms['p99']} ms while articles are classified"
    )
    queue = ", ".join(f"{number:,} {status}" for status, number in result.queue.items() if number)
    console.print(f"queue: {queue}; {result.killed} of two workers killed; classified in {result.classify_seconds} s")
    topics = ", ".join(f"{topic} {number}" for topic, number in list(result.topics.items())[:8])
    console.print(f"topics: {topics}; {result.without_topic:,} articles have none")
    for when, titles in (("before", result.feed_before), ("after", result.feed_after)):
        console.print(f"the feed {when} classification:")
        for line in titles:
            console.print(f"  {line}", highlight=False)


if __name__ == "__main__":
    typer.run(main)
