"""Measure how the code is cut: `python -m tools.structure` (`--json` for programs; `--root DIR` for another tree).

Counts what a reader has to find their way through: modules with a single importer, class names with two meanings, names
in the package root, lines of each distribution, and the files to open for a question about the engine.
"""

import argparse
import ast
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DISTRIBUTIONS = {"rowmill": "src/rowmill", "rowmill_systems": "systems/src/rowmill_systems"}

SHARED_NAMES: dict[str, str] = {
    "Base": "sqlalchemy.orm.DeclarativeBase: the tables of one system",
}
"""Class names that may be defined several times, because all of them implement the interface that is named here."""

HOPS: dict[str, tuple[str, ...]] = {
    "claim": (
        "worker/stage.py",  # when to claim, and how many rows
        "store/postgres/store.py",  # the port's claim()
        "store/postgres/claim.py",  # the statement, and what is done with its rows
        "store/queue_sql.py",  # the columns that a move writes
    ),
    "settle": (
        "worker/row_runner.py",  # a handler returned
        "worker/settler.py",  # verdicts are collected
        "store/postgres/store.py",  # the port's settle()
        "store/postgres/settle.py",  # the UPDATE
        "store/queue_sql.py",  # the columns that a move writes
    ),
    "requeue": (
        "mill/operations.py",  # Queue.requeue()
        "operator/change.py",  # the UPDATE, in batches
        "operator/filters.py",  # which rows
        "store/queue_sql.py",  # the columns that a move writes
    ),
    "wake-up": (
        "worker/stage.py",  # a worker without rows sleeps
        "store/postgres/store.py",  # the port's wait()
        "store/postgres/wakeup.py",  # the trigger that notifies, LISTEN, and the lock that says who sleeps
    ),
    "retry": ("model/retry.py",),
}
"""The files, below src/rowmill, that a reader opens to answer a question."""


@dataclass(frozen=True, slots=True)
class Structure:
    """The measurements of a tree."""

    store_modules: int
    store_modules_with_one_importer: list[str]
    duplicate_classes: dict[str, list[str]]
    """Class names that are defined more than once, with the files, except SHARED_NAMES."""
    root_names: int
    lines: dict[str, int]
    hops: dict[str, int]
    missing_hops: list[str]
    """Files in HOPS that do not exist."""

    def duplicates_within(self, distribution: str) -> dict[str, list[str]]:
        """Return the class names that are defined more than once in one distribution."""
        folder = DISTRIBUTIONS[distribution]
        within = {
            name: [file for file in files if file.startswith(folder)] for name, files in self.duplicate_classes.items()
        }
        return {name: files for name, files in within.items() if len(files) > 1}


def measure(root: Path = ROOT) -> Structure:
    """Read all Python files of both distributions below `root`, and count."""
    files = {name: sorted((root / folder).rglob("*.py")) for name, folder in DISTRIBUTIONS.items()}
    trees = {file: ast.parse(file.read_text()) for group in files.values() for file in group}
    engine = root / DISTRIBUTIONS["rowmill"]
    store = [file for file in files["rowmill"] if file.is_relative_to(engine / "store") and file.name != "__init__.py"]
    importers = importers_of(root, trees)
    lonely = [file for file in store if len(importers[module_name(root, file)]) == 1]
    named = {f"{DISTRIBUTIONS['rowmill']}/{file}" for hop in HOPS.values() for file in hop}
    return Structure(
        store_modules=len(store),
        store_modules_with_one_importer=[str(file.relative_to(engine)) for file in lonely],
        duplicate_classes=duplicate_classes(root, trees),
        root_names=len(exported(trees[engine / "__init__.py"])),
        lines={name: sum(len(file.read_text().splitlines()) for file in group) for name, group in files.items()},
        hops={question: len(hop) for question, hop in HOPS.items()},
        missing_hops=sorted(file for file in named if not (root / file).is_file()),
    )


def module_name(root: Path, file: Path) -> str:
    """Return the dotted name of a file: src/rowmill/store/port.py is rowmill.store.port."""
    folder = next(root / folder for folder in DISTRIBUTIONS.values() if file.is_relative_to(root / folder))
    parts = file.relative_to(folder.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def importers_of(root: Path, trees: Mapping[Path, ast.Module]) -> defaultdict[str, set[str]]:
    """Return, for each module, the modules that import it, in functions and for typing too."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    names = {module_name(root, file) for file in trees}
    for file, tree in trees.items():
        importer = module_name(root, file)
        for imported in imported_names(tree):
            module = imported if imported in names else imported.rpartition(".")[0]
            if module != importer:
                found[module].add(importer)
    return found


def imported_names(tree: ast.Module) -> Iterator[str]:
    """Yield what a module imports: modules, and names of modules. The code has no relative imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def duplicate_classes(root: Path, trees: Mapping[Path, ast.Module]) -> dict[str, list[str]]:
    """Return the files of every class name that is defined more than once."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for file, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and node.name not in SHARED_NAMES:
                found[node.name].append(str(file.relative_to(root)))
    return {name: files for name, files in sorted(found.items()) if len(files) > 1}


def exported(tree: ast.Module) -> list[str]:
    """Return the names in `__all__` of a module."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(
            isinstance(one, ast.Name) and one.id == "__all__" for one in node.targets
        ):
            return [str(name) for name in ast.literal_eval(node.value)]
    return []


def report(found: Structure) -> Iterator[str]:
    """Yield the measurements as lines for people."""
    lonely = found.store_modules_with_one_importer
    yield f"modules in store/: {found.store_modules}, of which {len(lonely)} have exactly one importer"
    yield from (f"  {file}" for file in lonely)
    yield f"class names defined more than once: {len(found.duplicate_classes)}"
    yield from (f"  {name}: {', '.join(files)}" for name, files in found.duplicate_classes.items())
    yield f"names in rowmill.__all__: {found.root_names}"
    yield "lines: " + ", ".join(f"{name} {lines:,}" for name, lines in found.lines.items())
    yield "files to open: " + ", ".join(f"{question} {count}" for question, count in found.hops.items())
    yield from (f"  missing: {file}" for file in found.missing_hops)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the measurements of a tree."""
    parser = argparse.ArgumentParser(prog="python -m tools.structure", description="Measure how the code is cut.")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--root", type=Path, default=ROOT, help="the tree to measure (default: this one)")
    options: Any = parser.parse_args(arguments)
    found = measure(options.root.resolve())
    print(json.dumps(asdict(found)) if options.json else "\n".join(report(found)))


if __name__ == "__main__":
    main()
