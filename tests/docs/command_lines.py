"""The commands that pages name, and what the command line knows of them."""

import re
import shlex
from collections.abc import Iterator
from itertools import takewhile
from typing import Any

from typer.main import get_command

from rowmill.cli.help import subcommands
from rowmill.cli.main import app

LINE = re.compile(r"^(?:    |\$ )?(rowmill (?!\d).+)$", re.MULTILINE)
INLINE = re.compile(r"`(rowmill [^`]+)`")


def commands(text: str) -> Iterator[str]:
    """The commands in a page: lines of their own in a block, and those within a sentence."""
    fenced = "\n".join(re.findall(r"^```(?:console|sh|bash)?\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
    rest = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    indented = "\n".join(line for line in rest.splitlines() if line.startswith("    rowmill "))
    yield from LINE.findall(f"{fenced}\n{indented}")
    yield from INLINE.findall(rest.replace("\n", " "))


def problem_of(command: str) -> str | None:
    """What is wrong with a command, by what the command line knows."""
    node: Any = get_command(app)
    words = takewhile(lambda word: word not in {"|", ">", "<", "…"}, shlex.split(command, comments=True)[1:])
    for word in words:
        options = {name: option for option in node.params for name in option.opts}
        if word.startswith("-") and word != "-":
            if word not in options:
                return f"{word} is no option of {node.name}"
            if not options[word].is_flag:
                next(words, None)
        elif below := subcommands(node):
            if word not in below:
                return f"{node.name} has no command {word}"
            node = below[word]
    return None
