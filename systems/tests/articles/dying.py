"""`python -m systems.tests.articles.dying POINT`: a worker of articles that is killed at that point of a batch."""

import asyncio
import os
import signal
import sys
from typing import Any

from rowmill.testing import QUICK
from rowmill_systems.articles import processing
from rowmill_systems.articles.articles import Articles
from rowmill_systems.articles.settings import ArticlesSettings
from systems.tests.articles.scripted_classifier import ScriptedClassifier

POINTS = ("claimed", "classified", "written", "committed")


def die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(point: str) -> None:
    classifier = ScriptedClassifier({"a": {"old": 0.9}})
    write_topics = processing.write_topics

    def write_and_die(*given: Any) -> None:
        write_topics(*given)
        die()

    match point:
        case "claimed":
            vars(processing)["read_texts"] = die
        case "classified":
            classifier.before_answer = die
        case "written":
            vars(processing)["write_topics"] = write_and_die
        case "committed":
            vars(processing)["_log"] = die
    articles = Articles(ArticlesSettings(), classifier=classifier)
    asyncio.run(articles.mill.drain(["classification_queue"], settings=QUICK))


if __name__ == "__main__":
    main(sys.argv[1])
