"""Run what a page tells a reader to do: save its files, type its commands, and see what it shows.

- A block of Python or of settings that begins with `# name.py` or `# name.ini` is a file of that name.
- In a block of `console`, a line with `$ ` is a command, and what follows is its output. Without output, the command
  only has to succeed.
- `rowmill work` and `uvicorn` run until `^C`, or until the end of the page. While one runs, a command is tried again
  until it shows what the page shows.
"""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(r"^```(python|ini|console)\n(.*?)^```", re.DOTALL | re.MULTILINE)
NAME = re.compile(r"# (\w+\.(?:py|ini))\n")
SECONDS = 60.0
BEGUN = {"rowmill work": " works on ", "uvicorn": "Uvicorn running on"}
"""Commands that run until they are interrupted, and what they say when they have begun."""
LIKE = (
    (r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?", "<time>"),
    (r"\d+(\.\d+)? ?(ms|s|m)\b", "<n> s"),
    (r"\[\d+\]", "[<process>]"),
    (r"\bseconds=\S+", "seconds=<n>"),
    (r"[\d,]+ rows settled a minute", "<n> rows settled a minute"),
    (r"^\d+ \S+ \d+ (?=.* <n> s ago)", "<worker> "),
    (r"\bworker \d+\b", "worker <n>"),
)
"""What differs from run to run."""


@dataclass(frozen=True)
class File:
    name: str
    text: str


@dataclass(frozen=True)
class Command:
    text: str
    """`^C` for an interrupt."""
    output: str


class Differs(AssertionError):
    """A command does not do what its page shows."""


def steps(page: str) -> Iterator[File | Command]:
    """The files and commands of a page, in its order."""
    for language, text in BLOCK.findall(page):
        if language != "console":
            if name := NAME.match(text):
                yield File(name[1], text)
            continue
        for part in re.split(r"^(?=\$ |\^C$)", text, flags=re.MULTILINE):
            first, _, output = part.partition("\n")
            if first:
                yield Command(first.removeprefix("$ "), output)


def alike(text: str) -> list[str]:
    """The lines of an output without what differs from run to run."""
    lines = []
    for line in text.strip().splitlines():
        plain = re.sub(r"\s+", " ", line).strip()
        for pattern, instead in LIKE:
            plain = re.sub(pattern, instead, plain)
        lines.append(plain)
    return lines


class Terminal:
    """Types commands in a folder. `replace` is put in the place of what only the reader can know."""

    def __init__(self, folder: Path, environment: Mapping[str, str], replace: Mapping[str, str]) -> None:
        self._folder, self._replace = folder, dict(replace)
        self._environment = {**environment, "NO_COLOR": "1"}
        self._worker: subprocess.Popen[bytes] | None = None
        self._log = folder / ".worker.log"
        self._seen = 0

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *error: object) -> None:
        if self._worker is not None:
            self._worker.kill()
            self._worker.wait()

    def follow(self, page: str, passing_over: Callable[[str], bool] = lambda command: False) -> int:
        """Do all that a page says. Return how many commands were run."""
        commands = 0
        for step in steps(page):
            if isinstance(step, File):
                (self._folder / step.name).write_text(step.text)
            elif not passing_over(step.text):
                self.run(step)
                commands += 1
        if self._worker is not None:
            self.run(Command("^C", ""))
        return commands

    def run(self, command: Command) -> None:
        text = command.text
        for wrong, right in self._replace.items():
            text = text.replace(wrong, right)
        if text == "^C":
            self._interrupt(command)
        elif text.startswith(tuple(BEGUN)):
            self._start(text, command)
        else:
            self._type(text, command)

    def _type(self, text: str, command: Command) -> None:
        end = time.monotonic() + SECONDS
        while True:
            done = subprocess.run(
                ["bash", "-c", f"{text}\nstatus=$?\nenv -0 >.environment\nexit $status"],
                cwd=self._folder, env=self._environment, stdin=subprocess.DEVNULL, text=True, check=False,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=10 * SECONDS,
            )  # fmt: skip
            if done.returncode:
                raise Differs(f"$ {text}\nfailed with {done.returncode}:\n{done.stdout}")
            if not command.output or alike(done.stdout) == alike(command.output):
                break
            if self._worker is None or time.monotonic() > end:
                raise Differs(f"$ {text}\nsays:\n{done.stdout}\nand the page shows:\n{command.output}")
            time.sleep(0.2)
        kept = (self._folder / ".environment").read_text().split("\0")
        self._environment = dict(entry.split("=", 1) for entry in kept if "=" in entry)

    def _start(self, text: str, command: Command) -> None:
        if self._worker is not None:
            raise Differs("the page starts a second worker before it ends the first")
        with self._log.open("wb") as log:
            self._worker = subprocess.Popen(
                ["bash", "-c", f"exec {text}"], cwd=self._folder, env=self._environment,
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip
        self._seen = 0
        self._expect(text, command.output)

    def _interrupt(self, command: Command) -> None:
        assert self._worker is not None, "the page interrupts a worker that it did not start"
        self._worker.send_signal(signal.SIGINT)
        self._worker.wait(SECONDS)
        self._worker = None
        if command.output:
            self._expect("^C", command.output)

    def _expect(self, typed: str, output: str) -> None:
        """Wait for the log of the worker to go on as the page shows."""
        wanted, end = alike(output), time.monotonic() + SECONDS
        signs = [sign for command, sign in BEGUN.items() if typed.startswith(command)]
        while True:
            lines = alike(self._log.read_text())[self._seen :]
            begun = lines[: len(wanted)] == wanted if wanted else any(sign in line for line in lines for sign in signs)
            if begun:
                self._seen += len(wanted)
                return
            ended = self._worker is None or self._worker.poll() is not None
            if ended or time.monotonic() > end:
                said = "\n".join(lines)
                raise Differs(f"$ {typed}\nsays:\n{said}\nand the page shows:\n{output}")
            time.sleep(0.1)


def plain_environment() -> dict[str, str]:
    """The environment without what chooses an application or a database."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("ROWMILL_", "DATABASE_URL"))}
