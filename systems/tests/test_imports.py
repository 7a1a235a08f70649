"""What may import what: systems use the public API of Rowmill and the parts; parts use nothing of a system."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
PUBLIC = {
    "rowmill", "rowmill.errors", "rowmill.limits", "rowmill.observe", "rowmill.operator", "rowmill.outbox",
    "rowmill.reconcile", "rowmill.schedules", "rowmill.testing", "rowmill.typing", "rowmill.worker",
}  # fmt: skip
PUBLIC_PACKAGES = ("rowmill.integrations", "rowmill.systems", "rowmill.web")
"""Packages whose modules are public too."""


def imported_modules(source: str) -> Iterator[str]:
    """Return every module that is imported, in functions and for typing as well."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "relative imports hide where a module is"
            yield node.module or ""


def complaint(importer: str, imported: str) -> str | None:
    """Say why `importer` may not import that module. None: it may."""
    if imported.split(".")[0] == "rowmill":
        is_public = imported in PUBLIC or imported.startswith(PUBLIC_PACKAGES)
        return None if is_public else "it is not part of Rowmill's public API"
    if imported.split(".")[0] != "rowmill_systems":
        return None
    room, target = (module.split(".")[1:2] or [""] for module in (importer, imported))
    if target == ["parts"] or room == target:
        return None
    return "a part uses nothing of a system" if room == ["parts"] else "a system uses nothing of another"


def findings(module: str, source: str) -> list[str]:
    return [f"{module} imports {each}: {why}" for each in imported_modules(source) if (why := complaint(module, each))]


def test_systems_import_the_public_api_and_parts_only() -> None:
    found: list[str] = []
    for path in sorted(SOURCE.rglob("*.py")):
        found += findings(".".join(path.relative_to(SOURCE).with_suffix("").parts), path.read_text("utf-8"))

    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("rowmill_systems.intake.queue", "from rowmill.store.port import Store"),
        ("rowmill_systems.intake.queue", "def f():\n    import rowmill.cli.output"),
        ("rowmill_systems.intake.queue", "from rowmill_systems.entities.models import Entity"),
        ("rowmill_systems.parts.names.folding", "from rowmill_systems.entities.things import Mention"),
    ],
)
def test_a_forbidden_import_is_found(module: str, source: str) -> None:
    assert len(findings(module, source)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("rowmill_systems.intake.queue", "import rowmill as rm\nfrom rowmill.web.site import Site"),
        ("rowmill_systems.intake.queue", "from rowmill_systems.parts.documents.reader import Reader"),
        ("rowmill_systems.parts.services.http", "from rowmill_systems.parts.values import UNFIT"),
    ],
)
def test_an_allowed_import_is_not(module: str, source: str) -> None:
    assert findings(module, source) == []


@pytest.mark.parametrize("program", ["parts.documents.child", "articles.feeds.parser_child"])
def test_a_process_that_reads_what_strangers_wrote_imports_no_database(program: str) -> None:
    """Many are started, and one is replaced often: each would take twice the time and 20 MB more."""
    code = f"import sys, rowmill_systems.{program}; print('sqlalchemy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
