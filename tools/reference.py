"""Writes the generated parts of the documentation: `python -m tools.reference` (`--check` only compares).

A generated part stands between `<!-- generated: name -->` and `<!-- end -->` in a page.
"""

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import typer
from pydantic_settings import BaseSettings
from typer.testing import CliRunner

from rowmill.cli.exits import MEANINGS, Exit
from rowmill.cli.help import subcommands
from rowmill.cli.main import app
from rowmill.model.lifecycle import MOVES, AttemptsChange, ErrorChange, Move, StateKind
from rowmill.worker.settings import WorkerSettings
from rowmill_systems.articles.settings import ArticlesSettings
from rowmill_systems.companies.settings import CompaniesSettings
from rowmill_systems.entities.settings import EntitiesSettings
from rowmill_systems.intake.settings import IntakeSettings
from rowmill_systems.knowledge.consistency import KINDS, Mending
from rowmill_systems.knowledge.settings import KnowledgeSettings

DOCS = Path(__file__).parents[1] / "docs"
PART = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def moves() -> str:
    """Return the transition table."""
    rows = ["| move | from | to | attempts | error | lease |", "| --- | --- | --- | --- | --- | --- |"]
    for move in MOVES.values():
        source = ", ".join(kind for kind in StateKind if kind in move.source)
        rows.append(
            f"| {move.name} | {source} | {target(move)} | {attempts(move)} | {error(move)} | "
            f"{'taken' if move.takes_lease else 'cleared'} |"
        )
    return "\n".join(rows)


def target(move: Move) -> str:
    if move.name == "advance":
        return "ready of the next stage"
    return f"{move.target}, after a wait" if move.delayed else str(move.target)


def attempts(move: Move) -> str:
    words = {
        AttemptsChange.KEEP: "kept",
        AttemptsChange.COUNT: "one more",
        AttemptsChange.GIVE_BACK: "given back",
        AttemptsChange.RESET: "zero",
    }
    return words[move.attempts] + ("" if move.failures is None else f"; of failures: {words[move.failures]}")


def error(move: Move) -> str:
    return {ErrorChange.KEEP: "kept", ErrorChange.CLEAR: "cleared", ErrorChange.SET: "set"}[move.error]


def settings() -> str:
    """Return every setting of a worker with its variable, default and meaning."""
    rows = ["| setting | environment | default | meaning |", "| --- | --- | --- | --- |"]
    meanings = re.findall(
        r'^    (\w+): [\w\[\]]+ = .+\n    """(.+?)"""', inspect.getsource(WorkerSettings), re.MULTILINE
    )
    by_name = dict(meanings)
    for field in fields(WorkerSettings):
        default = f"{field.default:.10g}" if isinstance(field.default, float) else str(field.default)
        rows.append(f"| `{field.name}` | `ROWMILL_{field.name.upper()}` | {default} | {by_name[field.name]} |")
    return "\n".join(rows)


def system_settings(kind: type[BaseSettings]) -> str:
    """Return every setting of a system."""
    rows = ["| environment | default | meaning |", "| --- | --- | --- |"]
    for name, field in kind.model_fields.items():
        default = field.get_default(call_default_factory=True, validated_data={})
        shown = "" if default in (None, {}) else default
        meaning = " ".join((field.description or "").split())
        rows.append(f"| `{kind.model_config['env_prefix']}{name.upper()}` | {shown} | {meaning} |")
    return "\n".join(rows)


def drift() -> str:
    """Return every kind of finding of knowledge, with what is done about it."""
    nobody = "Nobody can mend it. "
    rows = ["| finding | what it means | what is done |", "| --- | --- | --- |"]
    for kind in KINDS:
        how = f"{nobody}{kind.how}" if kind.mending is Mending.NONE else kind.how
        rows.append(f"| `{kind.name}` | {kind.meaning} | {how} |")
    return "\n".join(rows)


def exits() -> str:
    """Return every exit code with its meaning."""
    return "\n".join(["| code | meaning |", "| --- | --- |", *(f"| {code} | {MEANINGS[code]} |" for code in Exit)])


def all_commands(command: Any, *name: str) -> Iterator[tuple[str, ...]]:
    """Yield the names of a command's subcommands, at all levels."""
    for part, below in subcommands(command).items():
        if not below.hidden:
            yield (*name, part)
            yield from all_commands(below, *name, part)


def commands() -> str:
    """Return every command with its help."""
    names = all_commands(typer.main.get_command(app))
    parts = [f"```text\n{help_of()}\n```"]
    parts += [f"## rowmill {' '.join(name)}\n\n```text\n{help_of(*name)}\n```" for name in names]
    return "\n\n".join(parts)


def help_of(*command: str) -> str:
    """Return what `--help` prints without a terminal."""
    answer = CliRunner().invoke(app, [*command, "--help"], prog_name="rowmill", env={"COLUMNS": "100"})
    if answer.exit_code != 0:
        raise RuntimeError(f"rowmill {' '.join(command)} --help failed")
    return "\n".join(line.rstrip() for line in answer.output.strip().splitlines())


GENERATED: dict[str, Callable[[], str]] = {
    "moves": moves,
    "settings": settings,
    "commands": commands,
    "exits": exits,
    "intake_settings": partial(system_settings, IntakeSettings),
    "articles_settings": partial(system_settings, ArticlesSettings),
    "companies_settings": partial(system_settings, CompaniesSettings),
    "entities_settings": partial(system_settings, EntitiesSettings),
    "knowledge_settings": partial(system_settings, KnowledgeSettings),
    "knowledge_drift": drift,
}


def renewed(text: str) -> str:
    """Return a page with its generated parts renewed."""
    return PART.sub(lambda part: f"{part[1]}{GENERATED[part[2]]()}\n{part[3]}", text)


def main(check: bool) -> list[Path]:
    """Write the pages; with `check`, only compare. Return those that changed."""
    changed = []
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text()
        fresh = renewed(text)
        if fresh != text:
            changed.append(page)
            if not check:
                page.write_text(fresh)
    return changed


if __name__ == "__main__":
    stale = main("--check" in sys.argv)
    for page in stale:
        print(page.relative_to(DOCS.parent))
    sys.exit(1 if stale and "--check" in sys.argv else 0)
